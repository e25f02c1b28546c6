"""Slicing: how every operator is cut into parts for devices that work on one input together.

Its short rules stand in ``spec.py``, without a ``referee.py``; ``play.py`` says what a plan does.
"""
