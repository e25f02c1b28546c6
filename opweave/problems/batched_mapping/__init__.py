"""Batched mapping: which device runs which part of a batch."""
