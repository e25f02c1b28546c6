"""What the lanes of one solve know together.

Threads put in what comes from other processes; the solver's own thread takes it out when it asks its run whether to
stop, so that a solver never sees its run change under its hands. What the solver finds goes to the listeners at once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from opweave.problems.solution import Solution

TURN_SECONDS = 0.001
"""How long other threads get to send or hear a claim."""

Key = tuple[str | int, ...]
"""What a fact is about: names and numbers that mean the same to all lanes of a problem."""


@dataclass(frozen=True, slots=True)
class Found:
    """A solution and the objective that its finder claims for it."""

    solution: Solution
    objective: int | float


@dataclass(frozen=True, slots=True)
class Proved:
    """A lower bound of the optimum and what proved it."""

    bound: int | float
    source: str


@dataclass(frozen=True, slots=True)
class Fact:
    """What a lane has worked out that another would otherwise work out again; ``value`` is None while it is at it."""

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
        """Have a listener told of the best so far and of all that is better, in whatever thread it is heard."""
        with self._lock:
            self._listeners.append(listener)
            known: list[News] = [news for news in (self._found, self._proved) if news is not None]
            known += [Fact(key, value) for key, value in self._facts.items()]
        for news in known:
            listener(news)

    def leave(self, listener: Listener) -> None:
        """Tell a listener nothing more, and forget what it has begun and not ended."""
        with self._lock:
            self._listeners.remove(listener)
            for key in [key for key, owner in self._claims.items() if owner == listener and self._facts[key] is None]:
                del self._facts[key]

    def tell(self, news: News) -> None:
        """Spread what this process found or proved."""
        self._spread(news)

    def hear(self, news: News, sender: Listener | None = None) -> None:
        """Put in what another process found or proved, and spread it to all but its sender."""
        if self._spread(news, sender):
            with self._lock:
                if isinstance(news, Fact):
                    self._from_elsewhere.append(news.key)
                else:
                    self._waiting[type(news)] = news

    def take(self) -> list[Found | Proved]:
        """What has been heard since the last time: the best solution, the best bound."""
        if not self._waiting:
            return []
        with self._lock:
            taken = list(self._waiting.values())
            self._waiting.clear()
        return taken

    def claim(self, key: Key) -> bool:
        """Say that this lane works something out now; False where another lane has begun or done it.

        Threads that listen and send get a moment before and after it: some engines let no other thread run.
        """
        time.sleep(TURN_SECONDS)
        if not self._spread(Fact(key, None)):
            return False
        time.sleep(TURN_SECONDS)
        return True

    def fact(self, key: Key) -> object | None:
        """What a lane has worked out; None while none has."""
        return self._facts.get(key)

    def facts_from(self, place: int) -> list[Fact]:
        """What other lanes have worked out or begun, from a place in the order of their messages on."""
        with self._lock:
            return [Fact(key, self._facts.get(key)) for key in self._from_elsewhere[place:]]

    def call_off(self) -> None:
        """Have the run of this process stop."""
        self.called_off = True

    def closed(self, gap: float) -> bool:
        """Whether objective and bound have met, or are within the gap."""
        found, proved = self._found, self._proved
        if found is None or proved is None:
            return False
        return found.objective - proved.bound <= gap * abs(found.objective)

    def _spread(self, news: News, sender: Listener | None = None) -> bool:
        """Keep and hand on what is better than all before; whether it is."""
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
    """The latest news for one other process; a thread of its own sends it, so that no full pipe holds up a solver.

    A solution or bound that is overtaken before it was sent is never sent.
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
        """Send what is left, for so many seconds at most, and no more."""
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
            except (OSError, ValueError):  # the other process is gone
                return
