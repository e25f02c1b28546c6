"""TODO"""
def solve_obeying(*a): raise NotImplementedError
