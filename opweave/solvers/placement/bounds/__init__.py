"""Lower bounds of the makespan of placement, each with its proof; :mod:`.best` takes the largest."""
