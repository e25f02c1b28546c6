"""Rules that a heuristic does not know, put as simpler ones that it does: ways, narrower problems, and runs on them."""
