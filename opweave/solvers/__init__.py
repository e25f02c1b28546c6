"""Finding solutions: ``solve``, algorithms, engines, bounds."""
