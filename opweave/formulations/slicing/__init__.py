"""How slicing is written down: arrays, and a mixed-integer program over cuts."""
