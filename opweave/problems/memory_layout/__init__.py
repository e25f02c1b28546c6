"""Memory layout: the address of every storage."""
