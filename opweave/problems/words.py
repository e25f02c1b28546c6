"""Sentence fragments that the messages of all problems share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def counted(count: int, noun: str) -> str:
    """Write a number with its noun.

    Examples
    --------
    >>> counted(1, "byte"), counted(2048, "byte")
    ('1 byte', '2,048 bytes')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def joined(parts: Iterable[str]) -> str:
    """Write one or more parts as a list.

    Examples
    --------
    >>> joined(["pins", "forbids", "shares"])
    'pins, forbids and shares'
    """
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last


MOST_COMPARED = 20_000
"""Most words that an unknown word is compared with, which takes a second."""


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """Ask about the known word that is most like an unknown one; empty if none is like it.

    Examples
    --------
    >>> did_you_mean("higs", ["cbc", "highs"]), did_you_mean("x", ["highs"])
    ("; did you mean 'highs'?", '')
    >>> did_you_mean("memory", ["memory", "memory_bytes"])  # a word that is known elsewhere, but wrong here
    "; did you mean 'memory_bytes'?"
    """
    import difflib  # few programs make mistakes

    by_lower = {name.lower(): name for name, _ in zip(known, range(MOST_COMPARED), strict=False) if name != word}
    near = difflib.get_close_matches(str(word).lower(), by_lower, n=1, cutoff=0.6)
    return f"; did you mean {by_lower[near[0]]!r}?" if near else ""


MOST_LISTED = 8
"""Most names that a message lists."""


def instead_of(word: object, known: Collection[str], has: str = "it has") -> str:
    """What to write instead of an unknown word: the known word that is most like it, or else some of those known.

    Examples
    --------
    >>> instead_of("higs", ["cbc", "highs"]), instead_of("x", ["cbc", "highs"]), instead_of("x", [])
    ("; did you mean 'highs'?", '; it has: cbc, highs', '')
    """
    near = did_you_mean(word, known)
    if near or not known:
        return near
    more = f" and {len(known) - MOST_LISTED} more" if len(known) > MOST_LISTED else ""
    return f"; {has}: {', '.join(list(known)[:MOST_LISTED])}{more}"


def refuse_unknown(
    where: str, what: str, names: Iterable[object], known: Collection[str], whose: str = "graph"
) -> None:
    """Refuse names that are not known.

    Raises
    ------
    ValueError
        Names the first of them: "the costs name operator 'cnov1', which the graph does not have; did you mean ...?"
    """
    for name in names:
        if name not in known:
            has = f", which the {whose} does not have"
            if what == "device":
                has = f"; the {whose} has {', '.join(map(repr, known))}"
            raise ValueError(f"{where} {what} {name!r}{has}{did_you_mean(name, known)}")


def together(rules: Sequence[str]) -> str:
    """Write rules that together, but not separately, rule out every solution.

    Examples
    --------
    >>> together(["the memory of the devices", "the side constraints"]), together([])
    ('the memory of the devices and the side constraints together', 'the rules of the problem')
    """
    if not rules:
        return "the rules of the problem"
    return f"{joined(rules)} together" if len(rules) > 1 else rules[0]


def repeated(names: Iterable[Item]) -> Item | None:
    """The first of some names that is there more than once; None if they all differ."""
    return next((name for name, count in Counter(names).items() if count > 1), None)
