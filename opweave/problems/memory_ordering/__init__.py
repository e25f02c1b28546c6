"""Memory ordering: the order in which operators run. Its short rules stand in ``spec.py``, without a ``referee.py``."""
