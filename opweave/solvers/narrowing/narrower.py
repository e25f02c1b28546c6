"""TRANSITION: a decorator that does nothing; remove its uses, and this module."""

from opweave.solvers.narrowing.runs import by_best_way

or_narrower = by_best_way
