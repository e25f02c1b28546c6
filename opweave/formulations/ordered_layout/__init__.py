"""Order and offsets together as one program for engines."""
