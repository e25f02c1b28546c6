"""Pipelines shown to people: plan, trace, picture, explanation, and what other tools take."""
