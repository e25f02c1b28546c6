"""Keras models as graphs."""
