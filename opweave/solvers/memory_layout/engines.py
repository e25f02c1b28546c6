"""Engines that run a formulation of memory layout."""

from __future__ import annotations

from opweave.formulations.memory_layout import cp, milp  # noqa: F401 - they register themselves
from opweave.problems.memory_layout.spec import MemoryLayout
from opweave.solvers.engines.engine import HeadStart
from opweave.solvers.engines.registration import register_cp_sat, register_engines

KNOWN_BEFORE = HeadStart()

register_engines(MemoryLayout, "which of two storages is below the other", KNOWN_BEFORE)
register_cp_sat(MemoryLayout, "boxes in time and space that must not overlap", KNOWN_BEFORE)
