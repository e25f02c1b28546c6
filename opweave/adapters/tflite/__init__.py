"""TensorFlow Lite (LiteRT): reading graphs from ``.tflite`` files, with nothing installed."""
