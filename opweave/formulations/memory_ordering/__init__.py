"""How memory ordering is written down: arrays, integer programs, reductions."""
