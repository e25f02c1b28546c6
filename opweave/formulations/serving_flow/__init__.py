"""Serving flows as arrays and as programs for engines.

There is no ``shortage.py``: what no device can hold is named by ``instance.py``. There is no ``cp.py``: flows are not
whole numbers.
"""
