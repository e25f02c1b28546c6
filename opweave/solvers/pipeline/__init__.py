"""Solvers of pipelines, in the same files as those of every problem.

There is no ``bounds`` folder: the bound is the smallest objective that the joint search has not refuted. There is no
``exact.py``: that search is the only worker, and stands in ``workers.py``.
"""
