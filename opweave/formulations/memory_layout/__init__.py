"""Memory layout as arrays and as programs for engines."""
