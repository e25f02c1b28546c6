"""Slicing: how every operator is cut into parts for devices that work on one input together."""
