"""Questions about a problem beyond its best solution, answered by many solves."""
