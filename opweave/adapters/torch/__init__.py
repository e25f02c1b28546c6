"""PyTorch: graphs from exported programs and recorded steps; split modules and ordered programs."""
