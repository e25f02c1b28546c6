"""The referee of placement: operators run on devices, and transfers use ports, at the times of the schedule.

With blocking calls, an accelerator works in calls: tensors in, operators one after the other, tensors out. The host
runs any number of operators at the same time, or as many as it has cores. Source: Tarnawski et al., "Efficient
Algorithms for Device Placement of DNN Graph Operators" (NeurIPS 2020), the model for latency.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from math import inf, isnan, nan
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from opweave.problems import device_play
from opweave.problems.constraints import Precede, means
from opweave.problems.costs import MAX_SECONDS
from opweave.problems.device_play import DeviceDetails, Played, Runs
from opweave.problems.graph_arrays import Adjacency, topological_order
from opweave.problems.on_cluster import held
from opweave.problems.solution import TIME_TOLERANCE, Evaluation, Violation, broken
from opweave.problems.spec import FrozenDict
from opweave.problems.timeline import ActivityKind, Names, Recorder, Timeline, devices_and_ports
from opweave.problems.words import counted, refuse_unknown

if TYPE_CHECKING:
    from opweave.problems.placement.spec import Placement, Schedule


class PlacementDetails(DeviceDetails):
    """What a schedule takes."""


def judge(problem: Placement, solution: Schedule) -> Evaluation[PlacementDetails]:
    """Judge a solution against all rules except the side constraints."""
    wrong = tuple(unusable(problem, solution))
    if wrong:
        return Evaluation(objective=None, violations=wrong)
    played, used = play(problem, solution), problem.memory_by_device(solution)
    found = [*_wrong_transfers(problem, played), *played.in_time(), *device_play.overfull(problem.cluster, used)]
    if problem.turned_round is not None:
        found.append(broken("precedence", opposite_demanded(problem.turned_round)))
    return _judged(problem, played.timeline, used, found)


def _judged(
    problem: Placement, timeline: Timeline, used: Mapping[str, int], found: Iterable[Violation]
) -> Evaluation[PlacementDetails]:
    details = PlacementDetails(
        makespan=timeline.end, memory_bytes=FrozenDict(used), memory_limits=FrozenDict(problem.memory_limits)
    )
    return Evaluation(objective=timeline.end, violations=tuple(found), details=details).with_timeline(timeline)


def play(problem: Placement, solution: Schedule) -> Played:
    """Run the operators and transfers at the times of the schedule."""
    names, index = problem.graph.operator_ids, problem.cluster.device_index
    device = np.asarray([index[solution.device[name]] for name in names], dtype=np.int64)
    start = np.asarray([solution.start[name] for name in names], dtype=np.float64)
    operator = np.arange(len(names))
    end = start + problem.costs.array(names, index)[operator, device]
    runs = Runs(operator, device, start, end, np.ones_like(device))
    ports, for_all = problem.transfers != "delay", problem.transfers != "one_port_edge"
    return device_play.play(problem, runs, operator[:, None], solution.transfers, ports=ports, for_all=for_all)


def opposite_demanded(asked: Precede) -> str:
    """Say that a precedence constraint cannot be satisfied because its opposite is required."""
    return (
        f"operator {asked.before!r} shall end before {asked.after!r} begins, but data or other such rules demand the "
        "opposite"
    )


def unusable(problem: Placement, solution: Schedule) -> Iterator[Violation]:
    """Check that every operator has a start and a device that can run it, and that all names exist."""
    operators, devices = problem.known_seconds, problem.cluster.device_index
    for name in dict.fromkeys((*solution.device, *solution.start)):
        if name not in operators:
            yield broken("unknown", f"{name!r} is not an operator of the graph")
    where, when = dict(solution.device.items()), dict(solution.start.items())
    for name, costs in operators.items():
        device = where.get(name)
        if device is None:
            yield broken("missing", f"{name!r} has no device")
        elif device not in devices:
            yield broken("unknown", f"{name!r} runs on {device!r}, which the cluster does not have")
        elif device not in costs:
            yield broken("device", f"{name!r} cannot run on {device!r}: its time there is not known")
        if name not in when:
            yield broken("missing", f"{name!r} has no start")
        elif device in costs and when[name] + costs[device] > MAX_SECONDS:
            yield broken("unknown", f"{name!r} ends after {MAX_SECONDS:.0e} s, which is too late to count")
    yield from device_play.wrong_names(problem.graph, problem.cluster, solution.transfers)


def _wrong_transfers(problem: Placement, played: Played) -> Iterator[Violation]:
    """Check that every necessary transfer happens once, and that no listed transfer is needless."""
    needs = played.needs
    yield from played.without_link()
    if problem.transfers != "delay":
        met = played.sent.need[played.sent.need >= 0]
        for row in np.flatnonzero(needs.linked & (np.bincount(met, minlength=len(needs)) == 0)).tolist():
            yield broken("transfer", f"the schedule never sends {played.route(needs, row)}")
    yield from played.needless()


def check_calls(problem: Placement) -> None:
    """Refuse readings that blocking calls do not know, and settings that only they know.

    Raises
    ------
    ValueError
        With a sentence that says which.
    """
    host, cores = problem.host, problem.host_cores
    if problem.transfers != "blocking":
        given = {"host": host is not None, "max_calls": problem.max_calls != 1, "host_cores": cores is not None}
        for field in (field for field, there in given.items() if there):
            raise ValueError(f"{field} is for transfers='blocking', and transfers is {problem.transfers!r}")
        return
    if host is None:
        raise ValueError(
            "transfers='blocking' needs host=..., the device whose memory all tensors pass through; it runs any number "
            "of operators at the same time"
        )
    refuse_unknown("host names", "device", [host], problem.cluster.device_index, "cluster")
    if any(means(each, Precede) for each in problem.constraints):
        raise ValueError(
            "transfers='blocking' knows no Precede, because the operators of a call have one start and one end; "
            "leave it out or use another reading of transfers"
        )


class Step(NamedTuple):
    """A call, or one operator on the host.

    Attributes
    ----------
    device, start
        The device by position, and seconds.
    operators, running
        Its operators in an order that their data allow, and their seconds.
    fetched, returned
        Seconds by tensor that a call brings in and returns, NaN without a link; nothing for the host's steps.
    """

    device: int
    start: float
    operators: list[int]
    fetched: dict[int, float]
    running: list[float]
    returned: dict[int, float]

    @property
    def end(self) -> float:
        """Seconds."""
        lasts = (*self.fetched.values(), *self.running, *self.returned.values())
        return self.start + sum(seconds for seconds in lasts if not isnan(seconds))


class Calls:
    """A schedule as steps.

    Attributes
    ----------
    steps
        Every call, and every operator on the host.
    crossing
        Tensors read in another step than they are made in: tensor, making step and reading step, each once.
    order
        Steps in an order that their data allow; shorter if there is none.
    """

    def __init__(self, problem: Placement, solution: Schedule) -> None:
        graph, index = problem.graph, problem.cluster.device_index
        self._problem, self._host = problem, index[str(problem.host)]
        members: dict[tuple[int, float, int], list[int]] = {}
        for v in graph.listed_order.tolist():  # operators that start together on an accelerator are one call
            k, start = index[solution.device[graph.operator_ids[v]]], solution.start[graph.operator_ids[v]]
            members.setdefault((k, start, v if k == self._host else -1), []).append(v)
        self._step_of = {v: number for number, those in enumerate(members.values()) for v in those}
        arrays = graph.arrays
        reads = zip(arrays.reads.items.tolist(), arrays.reads.heads().tolist(), strict=True)
        makers = arrays.producer.tolist()
        made = ((t, self._step_of[makers[t]], self._step_of[reader]) for t, reader in reads if makers[t] >= 0)
        self.crossing = sorted({row for row in made if row[1] != row[2]})
        pairs = np.asarray([row[1:] for row in self.crossing], dtype=np.int64).reshape(-1, 2).T
        self.order = topological_order(Adjacency.from_pairs(len(members), pairs[0], pairs[1])).tolist()
        fetched, returned = defaultdict[int, set[int]](set), defaultdict[int, set[int]](set)
        for tensor, maker, reader in self.crossing:
            fetched[reader].add(tensor)
            returned[maker].add(tensor)
        seconds = problem.costs.array(graph.operator_ids, index)
        self.steps = [
            Step(
                device=k,
                start=start,
                operators=those,
                fetched=self._carried(self._host, k, fetched[number]),
                running=seconds[those, k].tolist(),
                returned=self._carried(k, self._host, returned[number]),
            )
            for number, ((k, start, _), those) in enumerate(members.items())
        ]

    def is_call(self, step: Step) -> bool:
        """Whether a step is a call."""
        return step.device != self._host

    def _carried(self, source: int, target: int, tensors: set[int]) -> dict[int, float]:
        """Seconds of each transfer between an accelerator and the host."""
        cluster, size = self._problem.cluster, self._problem.graph.arrays.tensor_bytes
        if source == target:
            return {}
        rate, latency = float(cluster.effective_bandwidth[source, target]), cluster.effective_latency[source, target]
        return {t: float(latency) + float(size[t]) / rate if rate > 0.0 else nan for t in sorted(tensors)}

    def intervals(self) -> dict[str, tuple[float, float]]:
        """Start and end of every operator's step."""
        spans = [(step.start, step.end) for step in self.steps]
        return {name: spans[self._step_of[v]] for v, name in enumerate(self._problem.graph.operator_ids)}

    def timeline(self) -> Timeline:
        """Everything that happens."""
        problem, graph = self._problem, self._problem.graph
        kinds = devices_and_ports(problem.cluster, ("send_port", "receive_port"), exclusive=False)
        resources = tuple(replace(each, exclusive=False) if k == self._host else each for k, each in enumerate(kinds))
        recorder, there = Recorder(), dict[int, int]()  # row of the activity that puts a tensor into host memory
        for number in (*self.order, *sorted(set(range(len(self.steps))) - set(self.order))):
            self._record(self.steps[number], recorder, there)
        operator = np.asarray([v for step in self.steps for v in step.operators], dtype=np.int64)
        device = np.asarray([step.device for step in self.steps for _ in step.operators], dtype=np.int64)
        lives = held(graph, operator, device, np.ones_like(operator), problem.memory).lifetimes()
        return Timeline("seconds", resources, Names.of(graph), recorder.activities(), lives)

    def _record(self, step: Step, recorder: Recorder, there: dict[int, int]) -> None:
        """Write a step; every activity waits for the one before it, and for what puts its tensor into host memory."""
        arrays, shift, now = self._problem.graph.arrays, len(self._problem.graph.operators), step.start
        last: list[tuple[int, int]] = []

        def made(tensors: Iterable[int]) -> list[tuple[int, int]]:
            return [(there[tensor], tensor + shift) for tensor in tensors if tensor in there]

        def carry(tensor: int, source: int, target: int, seconds: float) -> None:
            nonlocal now, last
            devices, row, end = len(self._problem.cluster.devices), recorder.rows, now + max(0.0, seconds)
            after = last if target == self._host else made([tensor]) + last
            ends = (ActivityKind.SEND, devices + source, row + 1), (ActivityKind.RECEIVE, 2 * devices + target, row)
            for kind, port, twin in ends:
                size = int(arrays.tensor_bytes[tensor])
                recorder.activity(kind, port, tensor + shift, now, end, size=size, twin=twin, after=after)
            now, last = end, [(row + 1, tensor + shift)]

        for tensor, seconds in step.fetched.items():
            carry(tensor, self._host, step.device, seconds)
        for v, seconds in zip(step.operators, step.running, strict=True):
            after = last if self.is_call(step) else made(arrays.reads[v].tolist()) + last
            row = recorder.activity(ActivityKind.RUN, step.device, v, now, now + seconds, after=after)
            now, last = now + seconds, [(row, -1)]
            if not self.is_call(step):
                there |= dict.fromkeys(arrays.writes[v].tolist(), row)
        for tensor, seconds in step.returned.items():
            carry(tensor, step.device, self._host, seconds)
            there[tensor] = last[0][0]


def call_intervals(problem: Placement, solution: Schedule) -> Mapping[str, tuple[float, float]]:
    """Start and end of every operator's step; nothing if the schedule cannot be carried out."""
    return {} if any(unusable(problem, solution)) else Calls(problem, solution).intervals()


def judge_calls(problem: Placement, solution: Schedule) -> Evaluation[PlacementDetails]:
    """Judge a solution against all rules except the side constraints."""
    wrong = tuple(unusable(problem, solution))
    if wrong:
        return Evaluation(objective=None, violations=wrong)
    calls, used = Calls(problem, solution), problem.memory_by_device(solution)
    timeline = calls.timeline()
    found = [*_violations(problem, calls, TIME_TOLERANCE * timeline.end), *device_play.overfull(problem.cluster, used)]
    if solution.transfers:
        message = f"the schedule lists {counted(len(solution.transfers), 'transfer')}; those of calls follow from them"
        found.insert(0, broken("transfer", message))
    return _judged(problem, timeline, used, found)


def _violations(problem: Placement, calls: Calls, tolerance: float) -> Iterator[Violation]:
    """What is wrong with the calls and their times."""
    steps, names, tensors = calls.steps, problem.graph.operator_ids, problem.graph.tensor_ids
    places = [device.name for device in problem.cluster.devices]

    def named(step: Step) -> str:
        return f"the call of {places[step.device]!r}" if calls.is_call(step) else repr(names[step.operators[0]])

    for step in steps:
        for tensor in (t for t, seconds in (*step.fetched.items(), *step.returned.items()) if isnan(seconds)):
            what = f"no link carries {tensors[tensor]!r} between {places[step.device]!r} and the host"
            yield broken("no_link", what)
    caught = [steps[number] for number in sorted(set(range(len(steps))) - set(calls.order))]
    if caught:
        which = next(filter(calls.is_call, caught), caught[0])
        message = f"data leave {named(which)}, which has {names[which.operators[0]]!r}, and come back into it"
        yield broken("contiguous", message)
    for tensor, made, read in calls.crossing:
        early = steps[made].end - steps[read].start
        if early > tolerance:
            what = f"{named(steps[read])} starts {early:.6g} s before its input {tensors[tensor]!r} is in host memory"
            yield broken("precedence", what, early)
    in_time = sorted(steps, key=lambda step: (step.start, step.end))
    for k, place in enumerate(places):
        yield from _of_one_accelerator(
            problem, place, [s for s in in_time if calls.is_call(s) and s.device == k], tolerance
        )
    yield from _of_the_host(problem, [step for step in in_time if not calls.is_call(step)], tolerance)


def _of_one_accelerator(problem: Placement, place: str, steps: list[Step], tolerance: float) -> Iterator[Violation]:
    """Check that there are not too many calls, and that none begins during another."""
    if problem.max_calls is not None and len(steps) > problem.max_calls:
        message = f"{place!r} has {len(steps)} calls: more than max_calls={problem.max_calls}"
        yield broken("calls", message, float(len(steps) - problem.max_calls))
    latest = -inf
    for step in steps:
        if latest - step.start > tolerance:
            message = f"{place!r} begins a call at {step.start:.6g} s, during another"
            yield broken("overlap", message, latest - step.start)
        latest = max(latest, step.end)


def _of_the_host(problem: Placement, steps: list[Step], tolerance: float) -> Iterator[Violation]:
    """Check that the host runs no more operators at the same time than it has cores."""
    cores, running = problem.host_cores, list[float]()  # when those that run at the moment end
    for step in steps if cores is not None else ():
        running = [end for end in running if end - step.start > tolerance]
        if cores is not None and len(running) >= cores:
            name, now = problem.graph.operator_ids[step.operators[0]], step.start
            message = f"{name!r} starts at {now:.6g} s, while the host runs {len(running)}: host_cores={cores}"
            yield broken("cores", message, min(running) - now)
        running.append(step.end)
