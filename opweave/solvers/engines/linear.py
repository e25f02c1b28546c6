"""Engines for integer programs that Pyomo drives."""

from __future__ import annotations

from opweave.solvers.engines.base import MatrixEngine
from opweave.solvers.engines.linear_child import DIALECTS, program_of


class LinearEngine(MatrixEngine):
    """An engine of :data:`DIALECTS`."""

    function = "opweave.solvers.engines.linear_child:solve"

    def __init__(self, name: str, install: str) -> None:
        self.name, self.install, self.package = name, install, DIALECTS[name].package

    def missing(self) -> str | None:
        """The command that installs it, unless its package or its program is there."""
        there = program_of(self.name) if DIALECTS[self.name].program else self.version()
        return None if there else self.install

    def version(self) -> str | None:
        """Name and version of the package; None for a program, whose version is unknown before a run."""
        return super().version() if self.package else None
