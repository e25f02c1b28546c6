"""Runs that print tables: papers reproduced, peers side by side, scaling. ``python -m benchmarks.memory_ordering``."""
