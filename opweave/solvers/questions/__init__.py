"""Several solves for one question: which solver, which hardware, which compromise."""
