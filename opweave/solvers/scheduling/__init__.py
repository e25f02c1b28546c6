"""What schedulers of several problems share: busy times with gaps, the best bound so far, rounds of annealing."""
