"""Pipelines: the stages of a model and the operators of each stage."""
