"""Lower bounds of memory ordering."""
