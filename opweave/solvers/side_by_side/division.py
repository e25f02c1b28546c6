"""Dividing a list of independent pieces of work among lanes that all come to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from opweave.solvers.run import Run
from opweave.solvers.side_by_side.exchange import Fact, Key

Item = TypeVar("Item")
Value = TypeVar("Value")


def divide(
    run: Run,
    items: Sequence[Item],
    *,
    key: Callable[[Item], Key],
    work: Callable[[Item], Value],
    learn: Callable[[Item, Value], None],
) -> None:
    """Work on all items, or learn what another lane made of them, until the run has to stop.

    A lane claims an item before it begins. When all that is left is claimed by others, it goes over those, too: whoever
    claimed them may be gone, and the last come first, so that two lanes do not wait for each other.

    Parameters
    ----------
    run
        Of this lane.
    items
        In the same order in all lanes; they need not come to the list at the same time, and without others beside it
        a lane does all of them in order.
    key
        Names an item.
    work
        Works on one item; never returns None.
    learn
        Called in this thread with what came of an item, here or elsewhere.
    """
    exchange = run.exchange
    if exchange is None:
        for item in items:
            if run.should_stop():
                return
            learn(item, work(item))
        return
    left: list[Item] = []
    for item in items:
        if run.should_stop():
            return
        if exchange.claim(key(item)):
            value = work(item)
            learn(item, value)
            exchange.tell(Fact(key(item), value))
        else:
            left.append(item)
    for item in reversed(left):
        if run.should_stop():
            return
        known = exchange.fact(key(item))
        if known is None:
            known = work(item)
            exchange.tell(Fact(key(item), known))
        learn(item, known)  # type: ignore[arg-type]  # what another lane's work returned
