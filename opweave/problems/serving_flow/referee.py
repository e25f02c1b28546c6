"""The rules of serving: they judge names, blocks of layers, memory, and whether tokens find a way."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import lcm
from typing import TYPE_CHECKING, NamedTuple

from opweave.problems.rules import over_memory
from opweave.problems.solution import Details, Violation, broken
from opweave.problems.spec import Amount, Many, Name, Spec
from opweave.problems.timeline import BEFORE, NEVER, ActivityKind, Names, Recorder, Timeline, devices_and_ports

if TYPE_CHECKING:
    from opweave.problems.serving_flow.spec import LayerBlocks, ServingFlow


class ServingUse(Spec):
    """One device that holds layers.

    Attributes
    ----------
    device
    first, layers
        Number of its first layer, counted from 0, and how many it holds.
    tokens_per_second
        What flows through it.
    most_per_second
        What it can compute with this number of layers.
    memory_bytes
        Parameters of its layers.
    """

    device: Name
    first: int
    layers: int
    tokens_per_second: Amount
    most_per_second: Amount
    memory_bytes: int

    @property
    def share(self) -> float:
        """Share of its speed that is used."""
        return self.tokens_per_second / self.most_per_second if self.most_per_second else 0.0


class ServingDetails(Details):
    """The flow of tokens.

    Attributes
    ----------
    tokens_per_second
        The largest flow through the devices as they hold the layers.
    devices
        One row for each device that holds layers.
    limits
        Devices and links of a smallest cut: more layers fewer, or faster, on these would help first.
    """

    tokens_per_second: Amount
    devices: Many[ServingUse]
    limits: Many[Name]


SOURCE, SINK = "source", "sink"
Pair = tuple[str | None, str | None]
"""The ends of a link; None is the coordinator."""


Blocks = dict[str, range]
"""The layers of every device that has some, by number."""


class LargestFlow(NamedTuple):
    """The largest flow.

    Attributes
    ----------
    tokens
        Tokens per second.
    through
        Tokens per second through every device.
    between
        Tokens per second from a device to another; None is the coordinator.
    speeds, links
        What every device can compute, and what every link can carry; None for no limit.
    limits
        Devices and links of a smallest cut.
    """

    tokens: Fraction
    through: dict[str, Fraction]
    between: dict[Pair, Fraction]
    speeds: dict[str, Fraction]
    links: dict[Pair, Fraction | None]
    limits: tuple[str, ...]


def speed(problem: ServingFlow, device: str, block: range) -> Fraction:
    """Tokens per second that a device can take with these layers, its own connection included."""
    rates = problem.rates.get(device, ())
    most = Fraction(rates[len(block) - 1]) if len(block) <= len(rates) else Fraction(0)
    if problem.cluster.rates is not None and len(problem.cluster.devices) > 1:
        port = Fraction(problem.cluster.rates[problem.cluster.device_index[device]])
        for place in (block.start, block.stop):
            if 0 < place < len(problem.layers) and problem.crossing_bytes[place]:
                most = min(most, port / problem.crossing_bytes[place])
    return most


def link(problem: ServingFlow, source: str, target: str, place: int) -> Fraction | None:
    """Tokens per second that a link can carry at a place between layers; None for no limit."""
    size = problem.crossing_bytes[place]
    index = problem.cluster.device_index
    rate = float(problem.cluster.direct_bandwidth[index[source], index[target]])
    if rate <= 0.0:
        return Fraction(0)
    return Fraction(rate) / size if size else None


def links_of(problem: ServingFlow, blocks: Blocks) -> dict[Pair, Fraction | None]:
    """Every link that may carry tokens, and how many."""
    last, anywhere = len(problem.layers), problem.entry == "any"
    found: dict[Pair, Fraction | None] = {}
    for source, block in blocks.items():
        if block.start == 0:
            found[None, source] = None
        if block.stop == last:
            found[source, None] = None
            continue
        for target, there in blocks.items():
            if there.start == block.stop or (anywhere and block.stop in there):
                found[source, target] = link(problem, source, target, block.stop)
    return {pair: most for pair, most in found.items() if most is None or most > 0}


def largest_flow(problem: ServingFlow, blocks: Blocks) -> LargestFlow:
    """The largest flow of tokens, without rounding."""
    import networkx as nx  # takes a while; ``import opweave`` does without it

    speeds = {device: speed(problem, device, block) for device, block in blocks.items()}
    links = links_of(problem, blocks)
    unit = lcm(1, *(each.denominator for each in (*speeds.values(), *links.values()) if each is not None))
    enough = int(sum(speeds.values()) * unit) + 1
    network = nx.DiGraph()
    network.add_nodes_from((SOURCE, SINK))
    for device, most in speeds.items():
        network.add_edge(("in", device), ("out", device), capacity=int(most * unit))
    ends: dict[Pair, tuple[object, object]] = {}
    for (source, target), limit in links.items():
        arc = SOURCE if source is None else ("out", source), SINK if target is None else ("in", target)
        network.add_edge(*arc, capacity=enough if limit is None else int(limit * unit))
        ends[source, target] = arc
    residual = nx.flow.preflow_push(network, SOURCE, SINK)  # one search for both the flow and the cut
    value, flow = residual.graph["flow_value"], nx.flow.build_flow_dict(network, residual)
    full = [(u, v) for u, v, edge in residual.edges(data=True) if edge["flow"] == edge["capacity"]]
    residual.remove_edges_from(full)
    near = set(network).difference(nx.shortest_path_length(residual, target=SINK))
    cut = [device for device in speeds if ("in", device) in near and ("out", device) not in near]
    for (source, target), (tail, head) in ends.items():
        if tail in near and head not in near:
            cut.append(f"{source} to {target}")
    between = {pair: Fraction(flow[tail][head], unit) for pair, (tail, head) in ends.items()}
    return LargestFlow(
        tokens=Fraction(value, unit),
        through={device: Fraction(flow["in", device]["out", device], unit) for device in speeds},
        between={pair: each for pair, each in between.items() if each},
        speeds=speeds,
        links=links,
        limits=tuple(cut),
    )


class PlayedFlow:
    """The layers of every device, and the largest flow through them."""

    def __init__(self, problem: ServingFlow, solution: LayerBlocks) -> None:
        index, held = problem.layer_index, {name: ops for name, ops in solution.operators.items() if ops}
        self._problem = problem
        self._blocks = {name: range(index[ops[0]], index[ops[-1]] + 1) for name, ops in held.items()}
        self._flow = largest_flow(problem, self._blocks)
        self.objective = float(1 / self._flow.tokens) if self._flow.tokens else None

    def timeline(self) -> Timeline | None:
        """One mean token: the share of the time that every device and link is busy; None if nothing flows."""
        if self.objective is None:
            return None
        problem, blocks, flow = self._problem, self._blocks, self._flow
        texts = [f"layers {block.start} to {block.stop - 1}" for block in blocks.values()]
        names = Names.of(problem.graph, *texts)
        row_of = {device: len(names.texts) - len(texts) + number for number, device in enumerate(blocks)}
        index, recorder, count = problem.cluster.device_index, Recorder(), len(problem.cluster.devices)
        for device, block in sorted(blocks.items(), key=lambda each: each[1].start):
            most = flow.speeds[device]
            if most and flow.through[device]:
                busy = float(flow.through[device] / flow.tokens / most)
                recorder.activity(ActivityKind.RUN, index[device], row_of[device], 0.0, busy)
            for number in block:
                storage = problem.graph.operator_index[problem.layers[number]]
                recorder.lifetime(storage, index[device], BEFORE, NEVER, problem.layer_bytes[number])
        for (source, target), tokens in flow.between.items():
            if source is None or target is None:
                continue
            limit = flow.links[source, target]
            seconds = float(tokens / flow.tokens / limit) if limit else 0.0
            size = problem.crossing_bytes[blocks[source].stop]
            ports = count + index[source], 2 * count + index[target]
            recorder.transfer(ports, row_of[source], 0.0, seconds, size=size)
        resources = devices_and_ports(problem.cluster, ("send_port", "receive_port"), exclusive=False)
        return Timeline("seconds", resources, names, recorder.activities(), recorder.lifetimes(), self.objective)

    def violations(self) -> Iterator[Violation]:
        """Devices with more layers than they can hold or run, and layers that no tokens reach."""
        problem, covered = self._problem, set[int]()
        for device, block in self._blocks.items():
            rates = problem.rates.get(device, ())
            most = max((number for number, rate in enumerate(rates, 1) if rate > 0), default=0)
            if len(block) > len(rates) or not rates[len(block) - 1]:
                yield broken("rate", f"{device!r} holds {len(block)} layers; its rates know at most {most}")
            used = sum(problem.layer_bytes[block.start : block.stop])
            yield from over_memory(device, used, problem.memory_limits[device])
            covered.update(block)
        missing = [name for number, name in enumerate(problem.layers) if number not in covered]
        if missing:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            yield broken("missing", f"no device holds {missing[0]!r}{more}")
        elif not self._flow.tokens:
            yield broken("no_way", "no links lead from the first layer to the last one through all others")

    def details(self) -> ServingDetails | None:
        """What flows through every device; None if nothing flows."""
        flow = self._flow
        if self.objective is None:
            return None
        uses = (
            ServingUse(
                device=device,
                first=block.start,
                layers=len(block),
                tokens_per_second=float(flow.through[device]),
                most_per_second=float(flow.speeds[device]),
                memory_bytes=sum(self._problem.layer_bytes[block.start : block.stop]),
            )
            for device, block in sorted(self._blocks.items(), key=lambda each: (each[1].start, each[1].stop))
        )
        return ServingDetails(tokens_per_second=float(flow.tokens), devices=tuple(uses), limits=flow.limits)


def unusable(problem: ServingFlow, solution: LayerBlocks) -> Iterator[Violation]:
    """Names that the problem does not have, and layers that are not consecutive."""
    for device, names in solution.operators.items():
        if device not in problem.cluster.device_index:
            yield broken("unknown", f"{device!r} holds layers, but the cluster does not have it")
        unknown = [name for name in names if name not in problem.layer_index]
        for name in unknown:
            yield broken("unknown", f"{name!r} is not a layer of the graph")
        numbers = [] if unknown else [problem.layer_index[name] for name in names]
        if numbers and numbers != list(range(numbers[0], numbers[0] + len(numbers))):
            message = f"the layers of {device!r} are not consecutive: {', '.join(names[:4])}"
            yield broken("block", message + (", ..." if len(names) > 4 else ""))
