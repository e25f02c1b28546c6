"""Batched mapping as mathematical programs.

``milp.py`` and ``cp.py`` are one file, ``programs.py``: both programs have the same rows but for what shares a device.
"""
