"""Plans in stages: every layer belongs to one stage, and the devices of a stage hold exactly its layers.

For a flow, the sets of devices that are fast enough for a stage of a given length are few, because devices of a kind
are alike. An integer program with a column for each set, and a row for each kind, then says whether stages can share
all layers out. Bisection finds the largest flow. Where links are slow, devices are split into regions; stages stay
within a region, and where tokens leave one for another, stages are wide enough for several links to share them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, permutations
from typing import NamedTuple

import numpy as np

from opweave.formulations.serving_flow.instance import UNUSED, ServingInstance, clustered
from opweave.problems.arrays import IntArray
from opweave.solvers.run import Run
from opweave.solvers.serving_flow.annealing import flow_of

CLOSE = 5e-4
"""Relative distance of flows at which bisection ends."""

MOST_SETS = 20_000
"""Most sets of one program."""

ILP_SECONDS = 5.0
"""Time for one program."""

MOST_REGIONS = 4
"""Most regions whose orders are all tried."""

STEPS = 40
"""Flows that are tried for every order of regions."""


class Stage(NamedTuple):
    """Layers of a stage, and how many devices of each pool hold them."""

    layers: int
    devices: dict[int, int]

    @property
    def width(self) -> int:
        """Number of its devices."""
        return sum(self.devices.values())


class Pools(NamedTuple):
    """Devices that are alike and in one region: their rows, speeds by number of layers, and regions."""

    rows: tuple[IntArray, ...]
    speeds: tuple[tuple[float, ...], ...]
    regions: tuple[int, ...]


def pools_of(instance: ServingInstance, regions: Sequence[IntArray]) -> Pools:
    """Split every kind of device by region."""
    rows, speeds, where = [], [], []
    for kind in instance.kinds:
        for number, region in enumerate(regions):
            both = np.intersect1d(kind, region)
            if len(both):
                rows.append(both)
                speeds.append(tuple(_least_speeds(instance, int(both[0]))))
                where.append(number)
    return Pools(tuple(rows), tuple(speeds), tuple(where))


def _least_speeds(instance: ServingInstance, device: int) -> Iterator[float]:
    """Tokens per second by the number of layers, wherever they are worst."""
    for count in range(instance.layers + 1):
        if not instance.most[device, count]:
            yield 0.0
        elif np.isinf(instance.port[device]) and np.isinf(instance.memory[device]):
            yield float(instance.rates[device, count])
        else:
            yield min(instance.speed(device, at, at + count) for at in range(instance.layers - count + 1))


def stages_for(pools: Pools, flow: float, region: int) -> Iterator[Stage]:
    """All smallest sets of devices of a region that are fast enough for a stage, for every number of its layers."""
    most = max((sum(speed > 0.0 for speed in each) for each in pools.speeds), default=0)
    for layers in range(1, len(pools.speeds[0]) if pools.speeds else 0):
        able = [p for p, speed in enumerate(pools.speeds) if pools.regions[p] == region and speed[layers] > 0.0]
        able.sort(key=lambda p: -pools.speeds[p][layers])
        slots = _widest(len(able), most)
        yield from (Stage(layers, chosen) for chosen in _smallest(pools, able, layers, flow, slots, {}))


def _widest(pools: int, layers: int) -> int:
    """Most pools of a set, so that the sets of all numbers of layers are not too many."""
    found, sets = 0, 1.0
    while found < pools and sets * max(1, layers) <= MOST_SETS:
        found += 1
        sets *= (pools - found + 1) / found
    return max(1, found if found == pools else found - 1)


def _smallest(
    pools: Pools, able: Sequence[int], layers: int, missing: float, slots: int, chosen: dict[int, int]
) -> Iterator[dict[int, int]]:
    """Sets of few pools that reach a flow, and do not without any one of their devices; the fastest pools come first.

    Where all remaining pools together are too slow, there is none.
    """
    if missing <= 0.0:
        yield dict(chosen)
        return
    if not slots or missing > sum(pools.speeds[p][layers] * len(pools.rows[p]) for p in able[:slots]):
        return
    pool, rest = able[0], able[1:]
    speed = pools.speeds[pool][layers]
    enough = int(np.ceil(missing / speed))
    for copies in range(min(enough, len(pools.rows[pool])), -1, -1):
        more = {**chosen, pool: copies} if copies else chosen
        yield from _smallest(pools, rest, layers, missing - copies * speed, slots - bool(copies), more)


class Line(NamedTuple):
    """Regions in the order in which tokens pass them, and how wide stages are where tokens change region."""

    regions: tuple[int, ...]
    leave: tuple[int, ...]
    enter: tuple[int, ...]


def best_stages(instance: ServingInstance, pools: Pools, flow: float, line: Line, run: Run) -> list[Stage] | None:
    """Stages of all layers that have a flow, those of each region together; None if none are found."""
    columns, roles = list[Stage](), list[tuple[int, str]]()
    for number, region in enumerate(line.regions):
        enters, leaves = number > 0, number + 1 < len(line.regions)
        for stage in stages_for(pools, flow, region):
            if len(columns) > MOST_SETS or run.should_stop():
                return None
            columns.append(stage)
            roles.append((number, "inner"))
            wide_in = not enters or stage.width >= line.enter[number - 1]
            wide_out = not leaves or stage.width >= line.leave[number]
            for role, fits in (("first", enters and wide_in), ("last", leaves and wide_out)):
                if fits:
                    columns.append(stage)
                    roles.append((number, role))
            if enters and leaves and wide_in and wide_out:
                columns.append(stage)
                roles.append((number, "both"))
    chosen = _share_out(instance, pools, line, columns, roles, run)
    if chosen is None:
        return None
    found: list[Stage] = []
    for number in range(len(line.regions)):
        inner = {"first": 0, "inner": 1, "both": 1, "last": 2}
        mine = sorted((inner[role], k) for k, (where, role) in enumerate(roles) if where == number and chosen[k])
        found += [columns[k] for _, k in mine for _ in range(int(chosen[k]))]
    return found


def _share_out(
    instance: ServingInstance,
    pools: Pools,
    line: Line,
    columns: Sequence[Stage],
    roles: Sequence[tuple[int, str]],
    run: Run,
) -> IntArray | None:
    """How often every set is a stage: all layers in stages, no device twice, and the right sets at the borders."""
    if not columns:
        return None
    from scipy.optimize import Bounds, LinearConstraint, milp  # takes half a second

    rows = [np.asarray([stage.layers for stage in columns], dtype=np.float64)]
    low, high = [float(instance.layers)], [float(instance.layers)]
    for pool, members in enumerate(pools.rows):
        rows.append(np.asarray([stage.devices.get(pool, 0) for stage in columns], dtype=np.float64))
        low.append(0.0)
        high.append(float(len(members)))
    for number in range(len(line.regions)):
        for side, there in (("first", number > 0), ("last", number + 1 < len(line.regions))):
            if there:
                mine = [where == number and role in (side, "both") for where, role in roles]
                rows.append(np.asarray(mine, dtype=np.float64))
                low.append(1.0)
                high.append(1.0)
    left = run.remaining()
    found = milp(
        np.asarray([float(stage.width) for stage in columns]),
        integrality=np.ones(len(columns)),
        bounds=Bounds(0, instance.layers),
        constraints=LinearConstraint(np.stack(rows), low, high),
        options={"time_limit": ILP_SECONDS if left is None else min(ILP_SECONDS, left), "mip_rel_gap": 1.0},
    )
    return None if found.x is None else np.rint(found.x).astype(np.int64)


def placed(instance: ServingInstance, pools: Pools, stages: Sequence[Stage]) -> list[tuple[int, int]]:
    """Blocks of all devices: the stages one after the other, with devices of each pool in turn."""
    blocks = [UNUSED] * len(instance.names)
    waiting = [list(rows.tolist()) for rows in pools.rows]
    at = 0
    for stage in stages:
        for pool, copies in stage.devices.items():
            for _ in range(copies):
                blocks[waiting[pool].pop(0)] = (at, at + stage.layers)
        at += stage.layers
    return blocks


def without_links(instance: ServingInstance, most: float, run: Run) -> Iterator[list[tuple[int, int]]]:
    """Better and better plans in stages, as if links had no limit."""
    pools = pools_of(instance, [np.arange(len(instance.names))])
    line, low, high = Line((0,), (), ()), 0.0, most
    tried = most  # the bound itself is often reached
    while high - low > CLOSE * high and not run.should_stop():
        stages = best_stages(instance, pools, tried * (1.0 - 1e-9), line, run)
        if stages is None:
            high = tried
        else:
            yield placed(instance, pools, stages)
            speeds = [sum(n * pools.speeds[p][stage.layers] for p, n in stage.devices.items()) for stage in stages]
            low = max(tried, min(speeds))
        tried = (low + high) / 2.0 if low else high * 0.8


def by_region(instance: ServingInstance, most: float, run: Run) -> Iterator[list[tuple[int, int]]]:
    """Plans in stages that stay within regions, for every order of the regions."""
    largest = float(instance.sizes[1:-1].max(initial=0.0))
    if not largest:
        return
    tokens = np.minimum(instance.links, instance.links.T) / largest
    regions = clustered(tokens >= most)
    if not 1 < len(regions) <= MOST_REGIONS:
        return
    pools = pools_of(instance, regions)
    lines = [each for count in range(len(regions), 0, -1) for each in permutations(range(len(regions)), count)]
    best = 0.0
    for share in np.linspace(1.0, 0.4, STEPS).tolist():
        flow = share * most
        if flow <= best:
            return
        for order in lines:
            for line in _widths(tokens, regions, order, flow):
                if run.should_stop():
                    return
                stages = best_stages(instance, pools, flow, line, run)
                if stages is not None:
                    blocks = placed(instance, pools, stages)
                    best = max(best, flow_of(instance, blocks))
                    yield blocks


def _widths(tokens: np.ndarray, regions: Sequence[IntArray], order: tuple[int, ...], flow: float) -> Iterator[Line]:
    """How many devices send and receive where tokens change region: many to one, several to several, one to many."""
    ways: list[Line] = [Line(order, (), ())]
    for source, target in pairwise(order):
        usual = float(np.median(tokens[np.ix_(regions[source], regions[target])]))
        if usual * len(regions[source]) * len(regions[target]) < flow:
            return
        pairs = int(np.ceil(flow / usual))
        root = int(np.ceil(np.sqrt(pairs)))
        shapes = {(1, pairs), (root, -(-pairs // root)), (pairs, 1)}
        ways = [
            Line(order, (*line.leave, leave), (*line.enter, enter)) for line in ways for leave, enter in sorted(shapes)
        ]
    yield from ways
