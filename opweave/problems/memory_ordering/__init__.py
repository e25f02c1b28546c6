"""Memory ordering: the order in which operators run."""
