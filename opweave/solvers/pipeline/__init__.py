"""Solvers of pipelines, in the files that all problems have.

There is no ``bounds``: the bound is the largest objective that the joint search (``exact.py``) has refuted.
"""
