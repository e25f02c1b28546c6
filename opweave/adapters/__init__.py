"""The outside world: model files in; plans, pictures and the command line out."""
