"""Models as files for other solvers: MPS and LP from arrays, CP-SAT's messages; and solutions read back."""
