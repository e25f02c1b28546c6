"""ONNX models out: reordered, cut into pieces, run and measured with ONNX Runtime."""
