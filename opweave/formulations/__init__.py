"""How a problem is written down for solvers: arrays, mathematical programs, reductions."""
