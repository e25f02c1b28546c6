"""Solvers of batched mapping, in the files that all problems have.

There is no ``exact.py``: proofs come from engines (``engines.py``), module by module (``split.py``), or from placement
(``whole.py``).
"""
