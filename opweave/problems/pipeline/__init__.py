"""Pipelines: which stage runs which operators."""
