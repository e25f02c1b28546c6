"""Pipelines written for solvers: arrays (``instance.py``), presolve, programs for engines.

Instead of ``milp.py`` and ``cp.py`` there are ``flow.py`` and ``circuit.py``, named after what each finds in the graph
of devices and cut points.
"""
