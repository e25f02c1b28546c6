"""Placement shown to people: its plan, trace, picture, device map and explanation."""
