"""Models with random weights, written out compactly, for the benchmarks that run what they plan."""
