"""What runtimes are asked about a model: each works in a process of its own, with limits on its time and memory."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

from opweave.problems.errors import EngineError, InvalidInputError
from opweave.problems.limits import Limits
from opweave.solvers.engines.child import ChildLimits, run_in_child


@dataclass(frozen=True, slots=True)
class Question:
    """A question to a runtime.

    Attributes
    ----------
    runtime, package, extra
        Its name, the package that it needs, and the extra of opweave that installs it.
    work
        The function that runs in the process; it returns the answer, or a text that says why there is none.
    needed, refused
        Sentences for a runtime that may not be asked and for one that gives no answer, with {} for the reason.
    """

    runtime: str
    package: str
    extra: str
    work: str
    needed: str
    refused: str

    def answer(self, task: object, where: str, limits: Limits) -> object:
        """Ask about the model ``where``.

        Raises
        ------
        InvalidInputError
            When the package is not installed, the runtime refuses, or its time or memory is up.
        """
        if not limits.run_seconds or find_spec(self.package) is None:
            install = f"it needs a package; to get it: pip install 'opweave[{self.extra}]'"
            why = install if limits.run_seconds else "the limits forbid it"
            raise InvalidInputError(f"{where}: {self.needed.format(why)}")
        caps = ChildLimits(seconds=limits.run_seconds, memory_bytes=limits.run_bytes)
        try:
            found: object = run_in_child(self.runtime, self.work, task, caps)
        except EngineError as error:
            found = str(error)
        if found is None:
            found = f"it took more than {limits.run_seconds:g} s"
        if isinstance(found, str):
            raise InvalidInputError(f"{where}: {self.refused.format(' '.join(found.split())[:200])}")
        return found
