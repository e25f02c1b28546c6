"""Graphs from other tools, and what all readers of model files share."""
