"""Solvers of slicing, in the same files as those of every problem.

There is no ``exact.py``: engines are exact.
"""
