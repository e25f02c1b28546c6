"""The rules of serving: they judge names, blocks of layers, memory, and whether tokens find a way."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import lcm
from typing import TYPE_CHECKING, NamedTuple

from opweave.problems.rules import over_memory
from opweave.problems.solution import Details, Evaluation, Violation, broken
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


class Held(NamedTuple):
    """Layers of a device: the number of the first one, and the number after the last one."""

    first: int
    end: int


class Flow(NamedTuple):
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


def held(problem: ServingFlow, solution: LayerBlocks) -> dict[str, Held] | None:
    """The layers of every device by number; None if names are unknown or layers are not consecutive."""
    found = {}
    for device, names in solution.operators.items():
        if not names:
            continue
        numbers = [problem.layer_index.get(name, -1) for name in names]
        consecutive = numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        if device not in problem.cluster.device_index or numbers[0] < 0 or not consecutive:
            return None
        found[device] = Held(numbers[0], numbers[-1] + 1)
    return found


def speed(problem: ServingFlow, device: str, block: Held) -> Fraction:
    """Tokens per second that a device can take with these layers, its own connection included."""
    rates = problem.rates.get(device, ())
    layers = block.end - block.first
    most = Fraction(rates[layers - 1]) if layers <= len(rates) else Fraction(0)
    if problem.cluster.rates is not None and len(problem.cluster.devices) > 1:
        port = Fraction(problem.cluster.rates[problem.cluster.device_index[device]])
        for place in (block.first, block.end):
            if 0 < place < len(problem.layers) and problem.crossing_bytes[place]:
                most = min(most, port / problem.crossing_bytes[place])
    return most


def link(problem: ServingFlow, source: str | None, target: str | None, place: int) -> Fraction | None:
    """Tokens per second that a link can carry at a place between layers; None for no limit."""
    size = problem.crossing_bytes[place]
    if source is None or target is None:
        given = problem.arriving if source is None else problem.leaving
        name = target if source is None else source
        rate = None if given is None or name is None else given.get(name)
        return None if rate is None or not size else Fraction(rate) / size
    index = problem.cluster.device_index
    rate = float(problem.cluster.direct_bandwidth[index[source], index[target]])
    if rate <= 0.0:
        return Fraction(0)
    return Fraction(rate) / size if size else None


def links_of(problem: ServingFlow, blocks: dict[str, Held]) -> dict[Pair, Fraction | None]:
    """Every link that may carry tokens, and how many."""
    last, anywhere = len(problem.layers), problem.entry == "any"
    found: dict[Pair, Fraction | None] = {}
    for source, (first, end) in blocks.items():
        if first == 0:
            found[None, source] = link(problem, None, source, 0)
        if end == last:
            found[source, None] = link(problem, source, None, last)
            continue
        for target, there in blocks.items():
            if there.first == end or (anywhere and there.first < end < there.end):
                found[source, target] = link(problem, source, target, end)
    return {pair: most for pair, most in found.items() if most is None or most > 0}


def largest_flow(problem: ServingFlow, blocks: dict[str, Held]) -> Flow:
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
            cut.append(f"{source or 'coordinator'} to {target or 'coordinator'}")
    between = {pair: Fraction(flow[tail][head], unit) for pair, (tail, head) in ends.items()}
    return Flow(
        tokens=Fraction(value, unit),
        through={device: Fraction(flow["in", device]["out", device], unit) for device in speeds},
        between={pair: each for pair, each in between.items() if each},
        speeds=speeds,
        links=links,
        limits=tuple(cut),
    )


def timeline(problem: ServingFlow, blocks: dict[str, Held], flow: Flow) -> Timeline:
    """The mean token: its runs and transfers last for their shares of the period, after which everything repeats."""
    texts = [f"layers {block.first} to {block.end - 1}" for block in blocks.values()]
    names = Names.of(problem.graph, *texts)
    row_of = {device: len(names.texts) - len(texts) + number for number, device in enumerate(blocks)}
    index, recorder = problem.cluster.device_index, Recorder()
    count = len(problem.cluster.devices)
    for device, block in sorted(blocks.items(), key=lambda each: each[1].first):
        most = flow.speeds[device]
        if most and flow.through[device]:
            busy = float(flow.through[device] / flow.tokens / most)
            recorder.activity(ActivityKind.RUN, index[device], row_of[device], 0.0, busy)
        for number in range(block.first, block.end):
            storage = problem.graph.operator_index[problem.layers[number]]
            recorder.lifetime(storage, index[device], BEFORE, NEVER, problem.layer_bytes[number])
    for (source, target), tokens in flow.between.items():
        if source is None or target is None:
            continue
        limit = flow.links[source, target]
        seconds = float(tokens / flow.tokens / limit) if limit else 0.0
        size, row = problem.crossing_bytes[blocks[source].end], recorder.rows
        ports = ((ActivityKind.SEND, count + index[source]), (ActivityKind.RECEIVE, 2 * count + index[target]))
        for (kind, port), twin in zip(ports, (row + 1, row), strict=True):
            recorder.activity(kind, port, row_of[source], 0.0, seconds, size=size, twin=twin)
    resources = devices_and_ports(problem.cluster, ("send_port", "receive_port"), exclusive=False)
    period = float(1 / flow.tokens)
    return Timeline("seconds", resources, names, recorder.activities(), recorder.lifetimes(), period)


def judge(problem: ServingFlow, solution: LayerBlocks) -> Evaluation[ServingDetails]:
    """Judge a plan against all rules except the side constraints."""
    blocks = held(problem, solution)
    if blocks is None:
        return Evaluation(objective=None, violations=tuple(_unusable(problem, solution)))
    flow = largest_flow(problem, blocks)
    broken = (*_too_much(problem, blocks), *_no_way(problem, blocks, flow))
    if not flow.tokens:
        return Evaluation(objective=None, violations=broken)
    judged = Evaluation(objective=float(1 / flow.tokens), violations=broken, details=_details(problem, blocks, flow))
    return judged.with_timeline(timeline(problem, blocks, flow))


def _unusable(problem: ServingFlow, solution: LayerBlocks) -> Iterator[Violation]:
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


def _too_much(problem: ServingFlow, blocks: dict[str, Held]) -> Iterator[Violation]:
    """Devices with more layers than they have a rate for, or more bytes than their memory."""
    for device, (first, end) in blocks.items():
        rates = problem.rates.get(device, ())
        most = max((number for number, rate in enumerate(rates, 1) if rate > 0), default=0)
        if end - first > len(rates) or not rates[end - first - 1]:
            yield broken("rate", f"{device!r} holds {end - first} layers; its rates know at most {most}")
        yield from over_memory(device, sum(problem.layer_bytes[first:end]), problem.memory_limits[device])


def _no_way(problem: ServingFlow, blocks: dict[str, Held], flow: Flow) -> Iterator[Violation]:
    """Layers that no device holds; or, if all are held, that no links lead through them."""
    covered = {number for block in blocks.values() for number in range(block.first, block.end)}
    missing = [name for number, name in enumerate(problem.layers) if number not in covered]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        yield broken("missing", f"no device holds {missing[0]!r}{more}")
    elif not flow.tokens:
        yield broken("no_way", "no links lead from the first layer to the last one through all others")


def _details(problem: ServingFlow, blocks: dict[str, Held], flow: Flow) -> ServingDetails:
    uses = (
        ServingUse(
            device=device,
            first=first,
            layers=end - first,
            tokens_per_second=float(flow.through[device]),
            most_per_second=float(flow.speeds[device]),
            memory_bytes=sum(problem.layer_bytes[first:end]),
        )
        for device, (first, end) in sorted(blocks.items(), key=lambda each: each[1])
    )
    return ServingDetails(tokens_per_second=float(flow.tokens), devices=tuple(uses), limits=flow.limits)
