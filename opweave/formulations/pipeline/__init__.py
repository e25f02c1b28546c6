"""Pipeline as arrays and as models for engines."""
