"""How batched mapping is written down: arrays, integer and constraint programs, the whole batch as one placement."""
