"""The solutions, bounds and facts that the lanes of one solve share.

Other threads add what arrives from other processes. The solver's own thread takes it out when it asks its run whether
to stop, so a run changes only when its solver asks. What the solver finds goes to the listeners at once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from opweave.problems.solution import Solution

TURN_SECONDS = 0.001
"""Seconds that other threads get to send or receive a claim."""

Key = tuple[str | int, ...]
"""The subject of a fact: names and numbers with the same meaning for all lanes of a problem."""


@dataclass(frozen=True, slots=True)
class Found:
    """A solution and the objective that its finder claims."""

    solution: Solution
    objective: int | float


@dataclass(frozen=True, slots=True)
class Proved:
    """A lower bound on the optimum and the method that proved it."""

    bound: int | float
    source: str


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that a lane computes so that others need not repeat it; ``value`` is None until it is done."""

    key: Key
    value: object | None


News = Found | Proved | Fact
Listener = Callable[[News], None]


class Exchange:
    """The best solution and bound of all lanes, as far as this process has heard.

    Examples
    --------
    >>> exchange = Exchange()
    >>> exchange.hear(Proved(3, "elsewhere"))
    >>> exchange.take()
    [Proved(bound=3, source='elsewhere')]
    >>> exchange.take()
    []
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: Found | None = None
        self._proved: Proved | None = None
        self._waiting: dict[type, Found | Proved] = {}
        self._listeners: list[Listener] = []
        self._facts: dict[Key, object | None] = {}
        self._claims: dict[Key, Listener | None] = {}
        self._from_elsewhere: list[Key] = []
        self.called_off = False

    def listen(self, listener: Listener) -> None:
        """Send a listener the best so far and all later improvements, in whatever thread they arrive."""
        with self._lock:
            self._listeners.append(listener)
            known: list[News] = [news for news in (self._found, self._proved) if news is not None]
            known += [Fact(key, value) for key, value in self._facts.items()]
        for news in known:
            listener(news)

    def leave(self, listener: Listener) -> None:
        """Stop informing a listener, and forget the facts that it has begun but not finished."""
        with self._lock:
            self._listeners.remove(listener)
            for key in [key for key, owner in self._claims.items() if owner == listener and self._facts[key] is None]:
                del self._facts[key]

    def tell(self, news: News) -> None:
        """Spread a solution, bound or fact of this process."""
        self._spread(news)

    def hear(self, news: News, sender: Listener | None = None) -> None:
        """Add news from another process, and spread it to all listeners except its sender."""
        if self._spread(news, sender):
            with self._lock:
                if isinstance(news, Fact):
                    self._from_elsewhere.append(news.key)
                else:
                    self._waiting[type(news)] = news

    def take(self) -> list[Found | Proved]:
        """The best solution and the best bound that have arrived since the last call."""
        if not self._waiting:
            return []
        with self._lock:
            taken = list(self._waiting.values())
            self._waiting.clear()
        return taken

    def claim(self, key: Key) -> bool:
        """Announce that this lane computes a fact now; False if another lane has begun or finished it.

        Threads that listen and send get a moment before and after, because some engines let no other thread run.
        """
        time.sleep(TURN_SECONDS)
        if not self._spread(Fact(key, None)):
            return False
        time.sleep(TURN_SECONDS)
        return True

    def fact(self, key: Key) -> object | None:
        """The value of a fact; None if no lane has computed it yet."""
        return self._facts.get(key)

    def facts_from(self, place: int) -> list[Fact]:
        """Facts of other lanes, begun or finished, from a position in the order of their messages on."""
        with self._lock:
            return [Fact(key, self._facts.get(key)) for key in self._from_elsewhere[place:]]

    def call_off(self) -> None:
        """Ask the run of this process to stop."""
        self.called_off = True

    def closed(self, gap: float) -> bool:
        """Whether objective and bound are equal, or within the gap."""
        found, proved = self._found, self._proved
        if found is None or proved is None:
            return False
        return found.objective - proved.bound <= gap * abs(found.objective)

    def _spread(self, news: News, sender: Listener | None = None) -> bool:
        """Store and pass on news that is better than before; return whether it is."""
        with self._lock:
            if isinstance(news, Fact):
                if news.key in self._facts and (news.value is None or self._facts[news.key] is not None):
                    return False
                self._facts[news.key] = news.value
                self._claims.setdefault(news.key, sender)
            elif isinstance(news, Found):
                if self._found is not None and news.objective >= self._found.objective:
                    return False
                self._found = news
            else:
                if self._proved is not None and news.bound <= self._proved.bound:
                    return False
                self._proved = news
            listeners = [listener for listener in self._listeners if listener != sender]
        for listener in listeners:
            listener(news)
        return True


class Outbox:
    """The latest news for one other process; a separate thread sends it, so that a full pipe does not block a solver.

    A solution or bound that is superseded before it is sent is never sent.
    """

    def __init__(self, send: Callable[[News], None]) -> None:
        self._send = send
        self._changed = threading.Condition()
        self._waiting: dict[type | Key, News] = {}
        self._closed = False
        self._thread = threading.Thread(target=self._run, daemon=True, name="opweave-outbox")
        self._thread.start()

    def put(self, news: News) -> None:
        """Send news soon."""
        with self._changed:
            self._waiting[news.key if isinstance(news, Fact) else type(news)] = news
            self._changed.notify()

    def close(self, seconds: float | None = None) -> None:
        """Send the remaining news, for at most ``seconds`` seconds, and then stop."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(seconds)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not (self._waiting or self._closed):
                    self._changed.wait()
                if not self._waiting:
                    return
                taken = list(self._waiting.values())
                self._waiting.clear()
            try:
                for news in taken:
                    self._send(news)
            except (OSError, ValueError):  # the other process has ended
                return
