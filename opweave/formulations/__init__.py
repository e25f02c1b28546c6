"""Problems written for solvers: as arrays, as mathematical programs, and as smaller problems."""
