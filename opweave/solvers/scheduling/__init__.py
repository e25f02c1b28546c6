"""Code that the solvers of several problems share: busy times with gaps, the best bound so far, annealing rounds."""
