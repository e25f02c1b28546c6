"""ONNX files: graphs out of them, reordered and split models into them."""
