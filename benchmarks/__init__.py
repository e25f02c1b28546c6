"""Benchmarks that print tables: papers, peers, scaling. For example ``python -m benchmarks.memory_ordering``."""
