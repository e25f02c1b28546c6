"""How pipelines are written down: arrays (``instance.py``), presolve, programs for engines.

In place of ``milp.py`` and ``cp.py`` stand ``flow.py`` and ``circuit.py``, named by what each looks for in the graph of
devices and cut points.
"""
