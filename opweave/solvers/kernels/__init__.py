"""What several kinds of loops need."""
