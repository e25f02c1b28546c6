"""Graphs from other tools, and code that all readers of model files share."""
