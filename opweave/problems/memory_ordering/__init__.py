"""Memory ordering: in which order operators run."""
