"""What runtimes are asked about a model: each works in a process of its own, with limits on its time and memory."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

from opweave.problems.errors import EngineError, InvalidInputError
from opweave.problems.limits import Limits
from opweave.solvers.engines.child import ChildLimits, run_in_child


def ask(runtime: Mapping[str, str], task: object, where: str, limits: Limits) -> object:
    """Ask a runtime about the model ``where``.

    Parameters
    ----------
    runtime
        The table ``runtime`` of a reader: the ``name``, the ``package`` that it needs, the ``extra`` of opweave that
        installs it, the function that does the ``work`` in the process and returns the answer or a text that says why
        there is none, and sentences for a runtime that may not be asked (``needed``) and for one that gives no answer
        (``refused``), with {} for the reason.
    task
        What the function gets.
    where, limits
        Name of the model in errors, and caps on time and memory.

    Raises
    ------
    InvalidInputError
        When the package is not installed, the runtime refuses, or its time or memory is up.
    """
    if not limits.run_seconds or find_spec(runtime["package"]) is None:
        install = f"it needs a package; to get it: pip install 'opweave[{runtime['extra']}]'"
        why = install if limits.run_seconds else "the limits forbid it"
        raise InvalidInputError(f"{where}: {runtime['needed'].format(why)}")
    caps = ChildLimits(seconds=limits.run_seconds, memory_bytes=limits.run_bytes)
    try:
        found: object = run_in_child(runtime["name"], runtime["work"], task, caps)
        found = found or f"it took more than {limits.run_seconds:g} s"
    except EngineError as error:
        found = str(error)
    if isinstance(found, str):
        raise InvalidInputError(f"{where}: {runtime['refused'].format(' '.join(found.split())[:200])}")
    return found
