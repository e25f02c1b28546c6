"""What a reader sees of a result: tables, figures, traces and one page."""
