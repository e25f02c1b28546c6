"""All list schedulers and floors, in the order of their cost: what plans that combine solvers run first."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from opweave.problems.placement.spec import Placement
from opweave.solvers.placement.cpop import cpop
from opweave.solvers.placement.etf import etf
from opweave.solvers.placement.fill import fill, fill_even
from opweave.solvers.placement.getf import getf
from opweave.solvers.placement.heft import heft
from opweave.solvers.placement.lists import Rule, solve_by
from opweave.solvers.placement.msct import msct
from opweave.solvers.placement.one_device import one_device
from opweave.solvers.placement.peft import peft
from opweave.solvers.run import Outcome, Run

FIRST: tuple[Rule, ...] = (one_device, fill, heft, cpop, peft, etf, fill_even)
"""Those that come before everything else, so that there is a plan whatever the time; the cheapest lead, which are what
a run ends with where its time is up before it has begun."""

OTHERS: tuple[Rule, ...] = (msct, getf)
"""Those that solve a linear program first."""

RULES: tuple[Rule, ...] = (*FIRST, *OTHERS)
"""Each builds a plan that fits, or raises :class:`~opweave.solvers.placement.insertion.NoPlanError`."""

HEURISTICS: tuple[Callable[[Placement, Run], Outcome], ...] = tuple(partial(solve_by, rule) for rule in RULES)
"""The same as functions that report to a run."""
