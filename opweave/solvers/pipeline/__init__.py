"""Solvers of pipelines, in the same files as those of every problem.

There is no ``bounds`` folder: the bound is the smallest objective that the joint search (``exact.py``) has not refuted.
"""
