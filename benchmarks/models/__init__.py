"""Models with random weights, written compactly, for the benchmarks that run their plans."""
