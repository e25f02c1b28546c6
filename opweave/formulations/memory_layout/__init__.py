"""Memory layout as arrays and as programs for engines.

There is no ``shortage.py``: a storage that fits nowhere is named by ``instance.py``, and the live bytes say the rest.
"""
