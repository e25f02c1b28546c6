"""PyTorch programs out: run in a given order, split into stages, and measured."""
