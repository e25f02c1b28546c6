"""TRANSITION: decorators that do nothing; remove their uses, and this module."""

from collections.abc import Callable
from typing import Any


def by_best_way(*_: object, **__: object) -> Callable[[Any], Any]:
    """Do nothing."""
    return lambda function: function


by_every_way = by_best_way
