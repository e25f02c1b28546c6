"""Lower bounds on the latency of slicing, each with its proof; :mod:`.best` takes the largest."""
