"""Memory layouts as a mathematical program. There is no ``cp.py``: on layouts CP-SAT finds and proves no more than HiGHS."""
