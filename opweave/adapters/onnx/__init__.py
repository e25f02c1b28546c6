"""ONNX: reading graphs from files, writing reordered and split models."""
