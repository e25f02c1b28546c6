"""Problems, formulations and solvers of other packages: modules that register themselves when they are imported.

A package names them as entry points, in the group ``opweave``::

    [project.entry-points.opweave]
    precision = "my_package.precision"
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import sys
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path

from opweave.problems.errors import InvalidInputError

logger = logging.getLogger("opweave")

GROUP = "opweave"


@cache
def load_plugins() -> None:
    """Import the modules that installed packages name, once; a module that fails is left out with a warning."""
    for point in entry_points(group=GROUP):
        try:
            point.load()
        except Exception as error:
            logger.warning("entry point %s = %s cannot be imported: %s", point.name, point.value, error)


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
        raise InvalidInputError(f"{module}: cannot be imported ({type(error).__name__}: {error})") from error
