"""Slicing shown to people: its plan, trace, pictures and explanation."""
