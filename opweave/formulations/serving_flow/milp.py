"""Serving as a mixed-integer program: which block every device holds, and how much of all tokens flows where.

Helix ("Helix: Serving Large Language Models over Heterogeneous GPUs and Network via Max-Flow", section 5) maximises a
flow, with constants that switch links on and off. Here the flow is a share of all tokens, from 0 to 1, and the time of
one token is minimised. So the objective is in seconds, and no constant is larger than a device's own speed asks for.

The model is readable in Pyomo: ``block[device,first,layers]``, ``computes[device,first,layers]``,
``sends[source,target,place]``, ``enters[device]``, ``leaves[device]`` and ``token``, the time of one token.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from opweave.formulations.formulation import TimedFormulation, register_formulation
from opweave.formulations.modeling.linear import Linear, total
from opweave.formulations.modeling.model import LinearModel
from opweave.formulations.serving_flow.instance import NO_BLOCKS, UNUSED, ServingInstance, lower
from opweave.problems.arrays import FloatArray
from opweave.problems.constraints import Constraint, MemoryCap
from opweave.problems.errors import InfeasibleError
from opweave.problems.serving_flow.spec import LayerBlocks, ServingFlow

UNITS = 1e3
"""Units of time in the least time of a token."""

SLOWEST = 1e5
"""Times of the least time of a token that a device or link may take for it; slower ones are left out."""

NEGLIGIBLE = 1e-9
"""Units of time below this are left out of rows, because engines would drop such coefficients."""

Point = tuple[int, int]
Place = tuple[int, int, int]


@dataclass(eq=False)
class BlockModel(LinearModel):
    """A linear program of blocks and flows, with variables over layers and devices.

    Attributes
    ----------
    instance
        What was written.
    holds, computes
        Columns of "a device holds a block" and of the share of all tokens that it computes, by (device, first layer,
        end).
    sends
        Columns of shares that links carry, by (source, target, place).
    enters, leaves
        Columns of shares that come from and go to the coordinator, by device.
    """

    instance: ServingInstance
    holds: dict[Place, int] = field(default_factory=dict)
    computes: dict[Place, int] = field(default_factory=dict)
    sends: dict[Place, int] = field(default_factory=dict)
    enters: dict[int, int] = field(default_factory=dict)
    leaves: dict[int, int] = field(default_factory=dict)

    def on(self, op: str, device: str) -> Linear:
        """1 if a device holds a layer."""
        row, layer = self.instance.names.index(device), self.instance.problem.layer_index[op]
        return total(Linear.of(x) for (k, first, end), x in self.holds.items() if k == row and first <= layer < end)

    def uses(self, device: str) -> Linear:
        """1 if a device holds layers."""
        row = self.instance.names.index(device)
        return total(Linear.of(x) for (k, _, _), x in self.holds.items() if k == row)

    def held(self, device: str) -> Linear:
        """Bytes of parameters that a device holds."""
        row, place = self.instance.names.index(device), self.instance.place
        sizes = {x: float(place[end] - place[first]) for (k, first, end), x in self.holds.items() if k == row}
        return Linear(0.0, sizes)


@register_formulation
class FlowOfTokens(TimedFormulation[ServingFlow, LayerBlocks]):
    """Blocks as binary variables, and shares of all tokens as continuous ones."""

    name: ClassVar[str] = "token_flow"
    problem_type: ClassVar[type[ServingFlow]] = ServingFlow
    model_type: ClassVar[type[LinearModel]] = BlockModel
    supports: ClassVar[tuple[str, ...]] = ("token_flow",)
    built_in: ClassVar[tuple[type[Constraint], ...]] = (MemoryCap,)
    source: ClassVar[str] = "Mei et al., Helix (ASPLOS 2025), section 5, with the time of a token as the objective"
    _most: float = 1.0

    def build(self, problem: ServingFlow) -> BlockModel:
        """Write the model."""
        instance = lower(problem)
        reason = instance.short()
        if reason is not None:
            raise InfeasibleError(reason)
        known = self.context.lower_bound
        self._most = min(instance.bounded, 1.0 / known) if known else instance.bounded
        all_blocks = list(instance.ways())
        blocks = [block for block in all_blocks if block[3] * SLOWEST >= self._most]
        self.restricts = len(blocks) < len(all_blocks)
        links = [
            (i, j, place)
            for i, j in np.argwhere(instance.links > 0.0).tolist()
            for place in range(1, instance.layers)
            if i != j
        ]
        self.check_size(2 * len(blocks) + 2 * len(links))
        self._unit = 1.0 / self._most / UNITS
        model = BlockModel(instance)
        model.check_time = self.check_time
        self._columns(model, blocks, links)
        token = Linear.of(int(model.reals("token", ["seconds"], [0.0], [SLOWEST * UNITS])[0]))
        self._blocks(model, blocks, token)
        self._flows(model, token)
        model.minimise(token, self._unit)
        self.add_constraints(model, problem)
        return model

    def least_rows(self, problem: ServingFlow) -> int:
        """Those of the links at every place."""
        linked = int(np.count_nonzero(problem.cluster.direct_bandwidth))
        return 2 * linked * (len(problem.layers) - 1)

    def _columns(self, model: BlockModel, blocks: list[tuple[int, int, int, float]], links: list[Place]) -> None:
        names = model.instance.names
        keys = [(names[k], first, end - first) for k, first, end, _ in blocks]
        where = [(k, first, end) for k, first, end, _ in blocks]
        model.holds = dict(zip(where, model.binaries("block", keys).tolist(), strict=True))
        shares = model.reals("computes", keys, high=1.0)
        model.computes = dict(zip(where, shares.tolist(), strict=True))
        pairs = [(names[i], names[j], place) for i, j, place in links]
        sent = model.reals("sends", pairs, high=1.0)
        model.sends = dict(zip(links, sent.tolist(), strict=True))
        for name, ends in (("enters", model.enters), ("leaves", model.leaves)):
            ends.update(enumerate(model.reals(name, names, high=1.0).tolist()))

    def _blocks(self, model: BlockModel, blocks: list[tuple[int, int, int, float]], token: Linear) -> None:
        """One block for each device at most; it computes only with that, and no faster than it can."""
        busy: dict[int, dict[int, float]] = {}
        for k, first, end, speed in blocks:
            key = (k, first, end)
            share = Linear.of(model.computes[key])
            model.rows("with_its_block").add(share <= Linear.of(model.holds[key]))
            seconds = UNITS * self._most / speed
            if seconds > NEGLIGIBLE:
                busy.setdefault(k, {})[model.computes[key]] = seconds
        for k in sorted({k for k, _, _, _ in blocks}):
            model.rows("one_block").add(model.uses(model.instance.names[k]) <= 1)
            if k in busy:
                model.rows("speed").add(Linear(0.0, busy[k]) <= token)
        self.check_time()

    def _flows(self, model: BlockModel, token: Linear) -> None:
        """What enters a device leaves it; links join blocks that follow each other, and have their own time."""
        instance, last = model.instance, model.instance.layers
        enters = {k: Linear.of(column) for k, column in model.enters.items()}
        leaves = {k: Linear.of(column) for k, column in model.leaves.items()}
        model.rows("all_tokens").add(total(enters.values()) == 1)
        into, out, onto, off = _Sums(), _Sums(), _Sums(), _Sums()
        for (i, j, place), column in model.sends.items():
            out.add(column, i)
            into.add(column, j)
            onto.add(column, j, place)
            off.add(column, i, place)
        begin, finish, inside, through = _Sums(), _Sums(), _Sums(), _Sums()
        for (k, first, end), column in model.holds.items():
            begin.add(column, k, first)
            finish.add(column, k, end)
            through.add(model.computes[k, first, end], k)
            for place in range(first, end) if instance.problem.entry == "any" else (first,):
                inside.add(column, k, place)
        for k in range(len(instance.names)):
            model.rows("flow_in").add(enters[k] + into.of(k) - through.of(k) == 0)
            model.rows("flow_out").add(leaves[k] + out.of(k) - through.of(k) == 0)
            model.rows("first_layer").add(enters[k] - begin.of(k, 0) <= 0)
            model.rows("last_layer").add(leaves[k] - finish.of(k, last) <= 0)
            self.check_time()
        for key in onto:
            model.rows("enters_block").add(onto.of(*key) - inside.of(*key) <= 0)
        for key in off:
            model.rows("leaves_block").add(off.of(*key) - finish.of(*key) <= 0)
        for (i, j, place), column in model.sends.items():
            self._takes(model, Linear.of(column), instance.link(i, j, place), token)

    def _takes(self, model: BlockModel, share: Linear, rate: float, token: Linear) -> None:
        """Sending a share of the tokens takes no longer than a token; what is far too slow is not used."""
        seconds = self._most / rate if rate > 0.0 else np.inf
        if seconds > SLOWEST:
            self.restricts = self.restricts or rate > 0.0
            model.rows("no_link").add(share <= 0)
        elif UNITS * seconds > NEGLIGIBLE:
            model.rows("link").add(share * (UNITS * seconds) <= token)

    def extract(self, model: BlockModel, values: FloatArray) -> LayerBlocks:
        """Read the blocks."""
        blocks = [UNUSED] * len(model.instance.names)
        for (k, first, end), column in model.holds.items():
            if values[column] > 0.5:
                blocks[k] = (first, end)
        return model.instance.solution(blocks)

    def start(self, model: BlockModel, solution: LayerBlocks) -> FloatArray:
        """Blocks; the engine completes the flow."""
        blocks = model.instance.blocks(solution)
        known = {column: float(blocks[k] == (a, b)) for (k, a, b), column in model.holds.items()}
        return model.filled(known)

    @classmethod
    def tells_apart(cls, _problem: ServingFlow) -> bool:
        """Blocks are all that is decided."""
        return True

    def why_infeasible(self, problem: ServingFlow) -> str:
        """Say what no plan does."""
        return NO_BLOCKS


class _Sums(dict[tuple[int, ...], dict[int, float]]):
    """Sums of columns by key; empty where nothing was added."""

    def add(self, column: int, *key: int) -> None:
        """Add a column to a sum."""
        self.setdefault(key, {})[column] = 1.0

    def of(self, *key: int) -> Linear:
        """The sum of a key."""
        return Linear(0.0, self.get(key, {}))
