"""How placement is written down: arrays, integer and constraint programs, coarsening."""
