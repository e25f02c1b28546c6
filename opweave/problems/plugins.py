"""Problems, formulations and solvers of other packages: entry points that are found when something is listed or solved.

A package names in its ``pyproject.toml`` modules that register themselves when they are imported, and the solvers and
formulations that it brings::

    [project.entry-points.opweave]
    precision = "my_package.precision"

    [project.entry-points."opweave.solvers"]
    mine = "my_package.solvers:mine"             # a Solver, or a function under @ow.solver_for(...)

    [project.entry-points."opweave.formulations"]
    compact = "my_package.programs:Compact"      # a class of formulations
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opweave.problems.errors import InvalidInputError
from opweave.problems.spec import FrozenDict
from opweave.problems.tagged import Tagged

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


logger = logging.getLogger("opweave")

GROUP, SOLVERS, FORMULATIONS = "opweave", "opweave.solvers", "opweave.formulations"

_LEFT_OUT: dict[str, str] = {}


@cache
def load_plugins(group: str = GROUP, register: Callable[[Any], object] = id) -> None:
    """Register what installed packages name in a group, once; what fails is left out with a warning.

    Parameters
    ----------
    group
        The group of entry points.
    register
        Receives each object; raises an exception if it is not what the group holds. Modules register what they bring
        by themselves.
    """
    from importlib.metadata import entry_points  # ``import opweave`` does without it

    for point in entry_points(group=group):
        try:
            register(point.load())
        except Exception as error:
            _LEFT_OUT[point.name] = f"{_named(point)} was left out ({type(error).__name__}: {error})"
            logger.warning("%s", _LEFT_OUT[point.name])


def _named(point: EntryPoint) -> str:
    package = getattr(getattr(point, "dist", None), "name", None)
    origin = f" of package {package!r}" if package else ""
    return f"entry point {point.name} = {point.value}{origin}"


def why_left_out(name: str) -> str:
    """The end of a message about an unknown name: why a package's entry point of that name was left out, if one was."""
    return f"; {_LEFT_OUT[name]}" if name in _LEFT_OUT else ""


def import_own(module: str) -> None:
    """Import a module by its name, or a file that ends in ``.py``.

    Raises
    ------
    InvalidInputError
        If there is no such module, or it raises an exception.
    """
    name = Path(module).stem if module.endswith(".py") else module
    if name in sys.modules:
        return
    try:
        if not module.endswith(".py"):
            importlib.import_module(name)
            return
        spec = importlib.util.spec_from_file_location(name, module)
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)  # pickle and pydantic look it up here
        spec.loader.exec_module(sys.modules[name])
    except Exception as error:
        sys.modules.pop(name, None)
        if module.endswith(".py") and not Path(module).is_file():
            raise InvalidInputError(f"{module}: there is no such file; check the name and the folder") from None
        raise InvalidInputError(f"{module}: cannot be imported ({type(error).__name__}: {error})") from error


# opweave's own; their solvers are imported on first use, so that "import opweave" stays light
KINDS = ("memory_ordering", "placement", "batched_mapping", "pipeline", "slicing", "memory_layout", "serving_flow")


def with_own(family: Mapping[str, type[Tagged]]) -> Mapping[str, type[Tagged]]:
    """All problems, or all solutions, by their words: opweave's own in the order of the words, then users' own.

    Parameters
    ----------
    family
        Those that are known before opweave's own are imported.
    """
    for kind in KINDS:
        importlib.import_module(f"opweave.problems.{kind}.spec")
    return FrozenDict(sorted(family.items(), key=lambda each: (not each[1].__module__.startswith("opweave."), each[0])))
