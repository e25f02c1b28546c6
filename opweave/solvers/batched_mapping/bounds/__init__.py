"""Lower bounds of the makespan of batched mapping, each with its proof; :mod:`.best` takes the largest."""
