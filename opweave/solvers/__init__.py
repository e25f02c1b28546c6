"""Who finds the answer: ``solve``, algorithms, engines, bounds."""
