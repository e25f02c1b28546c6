"""The world outside: model files in; plans, pictures and the command line out."""
