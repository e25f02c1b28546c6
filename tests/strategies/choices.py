"""Strategies for instances of many small choices, which Hypothesis draws as one: the seed of a random generator.

Hypothesis notes, weighs and later shrinks each choice on its own, which takes far longer than most tests of the
instances. Here, a composite strategy draws one number from Hypothesis and the rest from a generator with that seed. An
instance that fails is shown whole, and found again from the number; instances are small without shrinking. Strategies
of Hypothesis can be drawn among these, and these among Hypothesis'. The names are those of ``hypothesis.strategies``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cache, lru_cache, wraps
from random import Random
from typing import Any

from hypothesis import reject
from hypothesis import strategies as native
from hypothesis.strategies import SearchStrategy

TRIES = 100
"""Values that are drawn before a condition counts as impossible to meet."""

SEEDS = native.integers(0, 2**24 - 1)
"""Hypothesis draws evenly from ranges of up to 24 bits."""


class Draw:
    """Draws from one generator; what only Hypothesis knows is drawn from its data."""

    def __init__(self, random: Random, data: Any) -> None:
        self.random = random
        self.data = data

    def __call__(self, strategy: SearchStrategy[Any]) -> Any:
        return strategy.roll(self) if isinstance(strategy, Rolled) else self.data.draw(strategy)


DrawFn = Draw


class Rolled(SearchStrategy[Any]):
    """Values that a function makes with a :class:`Draw`."""

    def __init__(self, roll: Callable[[Draw], Any]) -> None:
        super().__init__()
        self.roll = roll

    def do_draw(self, data: Any) -> Any:
        return self.roll(Draw(Random(data.draw(SEEDS)), data))

    def filter(self, condition: Callable[[Any], Any]) -> Rolled:
        def roll(draw: Draw) -> Any:
            for _ in range(TRIES):
                value = self.roll(draw)
                if condition(value):
                    return value
            return reject()

        return Rolled(roll)

    def map(self, pack: Callable[[Any], Any]) -> Rolled:
        return Rolled(lambda draw: pack(self.roll(draw)))

    def __or__(self, other: SearchStrategy[Any]) -> SearchStrategy[Any]:
        return one_of(self, other)


class _Either(Rolled):
    """A value of any of several strategies, each as likely."""

    def __init__(self, options: Sequence[SearchStrategy[Any]]) -> None:
        self.options = [each for one in options for each in (one.options if isinstance(one, _Either) else [one])]
        super().__init__(lambda draw: draw(draw.random.choice(self.options)))


def composite(function: Callable[..., Any]) -> Callable[..., Rolled]:
    """Decorator for a function that makes a value; its first argument is a :class:`Draw`."""

    @wraps(function)
    def strategy(*arguments: Any, **named: Any) -> Rolled:
        return Rolled(lambda draw: function(draw, *arguments, **named))

    return strategy


@lru_cache(maxsize=None, typed=True)  # 1, 1.0 and True do not share a strategy
def of(*options: Hashable) -> Rolled:
    """One of the options."""
    return sampled_from(options)


def sampled_from(options: Sequence[Any]) -> Rolled:
    """One of the options."""
    return Rolled(lambda draw: draw.random.choice(options))


@cache
def or_none(strategy: SearchStrategy[Any], nones: int = 1) -> Rolled:
    """None or a value, where None counts so many times."""
    return one_of(*[none()] * nones, strategy)


@cache
def lists_of(strategy: SearchStrategy[Any], least: int = 0, most: int | None = None, *, unique: bool = False) -> Rolled:
    """Lists of values."""
    return lists(strategy, min_size=least, max_size=most, unique=unique)


def lists(
    strategy: SearchStrategy[Any], *, min_size: int = 0, max_size: int | None = None, unique: bool = False
) -> Rolled:
    """Lists of values; without a largest size, of up to three more than the least."""

    def roll(draw: Draw) -> list[Any]:
        size = draw.random.randint(min_size, min_size + 3 if max_size is None else max_size)
        values: list[Any] = []
        for _ in range(TRIES if unique else size):
            if len(values) == size:
                break
            value = draw(strategy)
            if not unique or value not in values:
                values.append(value)
        return values if len(values) >= min_size else reject()

    return Rolled(roll)


def sets(strategy: SearchStrategy[Any], *, min_size: int = 0) -> Rolled:
    """Sets of values."""
    return lists(strategy, min_size=min_size, unique=True).map(set)


def dictionaries(keys: SearchStrategy[Any], values: SearchStrategy[Any], *, max_size: int | None = None) -> Rolled:
    """Dictionaries."""
    chosen = lists(keys, max_size=max_size, unique=True)
    return Rolled(lambda draw: {key: draw(values) for key in draw(chosen)})


def integers(least: int, most: int) -> Rolled:
    """Whole numbers from ``least`` to ``most``."""
    return Rolled(lambda draw: draw.random.randint(least, most))


def booleans() -> Rolled:
    """True or False."""
    return of(False, True)


def permutations(values: Sequence[Any]) -> Rolled:
    """The values in any order."""
    return Rolled(lambda draw: draw.random.sample(list(values), len(values)))


def just(value: Any) -> Rolled:
    """Always the same value."""
    return Rolled(lambda draw: value)


def none() -> Rolled:
    """Always None."""
    return just(None)


def one_of(*options: SearchStrategy[Any]) -> Rolled:
    """A value of any of the strategies."""
    return _Either(options)


def builds(made: Callable[..., Any], *arguments: SearchStrategy[Any]) -> Rolled:
    """What a function makes of drawn arguments."""
    return Rolled(lambda draw: made(*map(draw, arguments)))
