"""Lower bounds of the latency of slicing, each with its proof; :mod:`.best` takes the largest."""
