"""Serving flows as arrays and as programs for engines.

There is no ``cp.py``: flows are not whole numbers.
"""
