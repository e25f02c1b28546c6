"""Oracle of placement: the best of all assignments and all orders, for instances of up to 5 operators and 3 devices.

Why orders suffice. The makespan never grows when something happens earlier, so an optimal schedule may be taken
semi-active: nothing can start earlier while the order on every device and port stays. Sort its operators and transfers
by start; of those with the same start, what comes first in the data or on a device or port goes first. Replaying that
order, each as early as its data and the order on its devices and ports allow, gives the same schedule. So the search
tries every order of operators and transfers in which starts do not go back. It leaves a branch when the longest path of
what remains, or the work left for a device or port, cannot beat the best known, and when the same things have been done
with the same times before.

Takes Pin, Forbid, Colocate, Separate, MaxDevices, MemoryCap, and Precede where it closes no circle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeVar

from opweave.problems.constraints import Colocate, Constraint, Forbid, MaxDevices, MemoryCap, Pin, Precede, Separate
from opweave.problems.errors import InvalidInputError
from opweave.problems.graph import Operator
from opweave.problems.placement.spec import Placement, Schedule, Transfer

WayT, PlanT = TypeVar("WayT"), TypeVar("PlanT")


@dataclass(frozen=True)
class Task:
    """An operator or a transfer: what it lasts, what it occupies, which tasks (by position) it waits for, how long."""

    name: str | tuple[str, str | None, str, str]
    seconds: float
    occupies: tuple[str, ...]
    waits_for: tuple[tuple[int, float], ...]


def best_placement(problem: Placement) -> tuple[float | None, Schedule | None]:
    """The optimum and a schedule that reaches it; None and None when nothing is allowed."""
    ways = ((device, tasks_of(problem, device)) for device in allowed_assignments(problem))
    return best_of(ways, lambda device, tasks, starts: as_schedule(tasks, device, starts))


def best_of(
    ways: Iterable[tuple[WayT, list[Task] | None]], plan_of: Callable[[WayT, list[Task], list[float]], PlanT]
) -> tuple[float | None, PlanT | None]:
    """Try every order of the tasks of every way, those with the least bounds first."""
    known = [(way, tasks) for way, tasks in ways if tasks is not None]
    bounds = [(_lower_bound(tasks), number, way, tasks) for number, (way, tasks) in enumerate(known)]
    best: float | None = None
    plan: PlanT | None = None
    for lower_bound, _, way, tasks in sorted(bounds, key=lambda each: each[:2]):
        if best is not None and not _beats(lower_bound, best):
            break
        starts = _Search(tasks, best).run()
        if starts is not None:
            plan, best = plan_of(way, tasks, starts), _makespan(tasks, starts)
    return best, plan


def allowed_assignments(problem: Placement) -> Iterator[dict[str, str]]:
    """Every way to give each operator a device that obeys memory and the side constraints."""
    names = [op.id for op in problem.graph.operators]
    choices = []
    for name in names:
        known = [each.name for each in problem.cluster.devices if _seconds(problem, name, each.name) is not None]
        choices.append(known)
    for chosen in product(*choices):
        device = dict(zip(names, chosen, strict=True))
        limits = {each.name: each.memory_bytes for each in problem.cluster.devices}
        fits = all(limit is None or bytes_on(problem, device, name) <= limit for name, limit in limits.items())
        if fits and problem.constraints:
            where = {name: {on} for name, on in device.items()}
            held = {each.name: bytes_on(problem, device, each.name) for each in problem.cluster.devices}
            fits = all(obeys(constraint, where, held) for constraint in problem.constraints)
        if fits:
            yield device


def bytes_on(problem: Placement, device: Mapping[str, str], name: str) -> int:
    """What one device holds."""
    return bytes_of(problem, [op for op in problem.graph.operators if device[op.id] == name])


def bytes_of(problem: Placement, here: Sequence[Operator]) -> int:
    """What a device holds that runs some operators."""
    weights = {each.id: each.bytes for each in problem.graph.parameters}
    sizes = {each.id: each.bytes for each in problem.graph.tensors if each.alias_of is None}
    total = sum(weights[each] for each in set().union(*(op.parameters for op in here)))
    if problem.memory == "parameters":
        return total
    return total + sum(op.workspace_bytes + sum(sizes.get(each, 0) for each in op.outputs) for op in here)


def tasks_of(problem: Placement, device: Mapping[str, str]) -> list[Task] | None:
    """Operators and transfers of an assignment; None when a link is missing."""
    names = [op.id for op in problem.graph.operators]
    place = {name: index for index, name in enumerate(names)}
    writer = {tensor: op.id for op in problem.graph.operators for tensor in op.outputs}
    size = {tensor.id: tensor.bytes for tensor in problem.graph.tensors}
    waits: dict[str, list[tuple[int, float]]] = {name: [] for name in names}
    sent: dict[tuple[str, str | None, str, str], int] = {}
    transfers: list[Task] = []
    for op in problem.graph.operators:
        for tensor in set(op.inputs) & set(writer):
            made_by, source, target = writer[tensor], device[writer[tensor]], device[op.id]
            if source == target:
                waits[op.id].append((place[made_by], 0.0))
                continue
            try:
                seconds = problem.cluster.transfer_seconds(size[tensor], source, target)
            except InvalidInputError:
                return None
            if problem.transfers == "delay":
                waits[op.id].append((place[made_by], seconds))
                continue
            key = (tensor, op.id if problem.transfers == "one_port_edge" else None, source, target)
            if key not in sent:
                sent[key] = len(names) + len(transfers)
                ports = (f"out of {source}", f"into {target}")
                transfers.append(Task(key, seconds, ports, ((place[made_by], 0.0),)))
            waits[op.id].append((sent[key], 0.0))
    for constraint in problem.constraints:
        if isinstance(constraint, Precede):
            waits[constraint.after].append((place[constraint.before], 0.0))
    operators = [
        Task(name, problem.costs.seconds(name, device[name]), (f"on {device[name]}",), tuple(waits[name]))
        for name in names
    ]
    return operators + transfers


def earliest_starts(tasks: Sequence[Task], ranks: Sequence[float]) -> list[float]:
    """Start one task after the other, of those whose turn it can be the one with the smallest rank."""
    starts: dict[int, float] = {}
    free: dict[str, float] = {}
    while len(starts) < len(tasks):
        ready = [i for i, task in enumerate(tasks) if i not in starts and all(j in starts for j, _ in task.waits_for)]
        chosen = min(ready, key=lambda i: ranks[i])
        task = tasks[chosen]
        starts[chosen] = _start(task, {i: start + tasks[i].seconds for i, start in starts.items()}, free)
        free |= dict.fromkeys(task.occupies, starts[chosen] + task.seconds)
    return [starts[i] for i in range(len(tasks))]


def as_schedule(tasks: Sequence[Task], device: Mapping[str, str], starts: Sequence[float]) -> Schedule:
    """The times in the problem's words."""
    transfers = []
    when = {}
    for task, start in zip(tasks, starts, strict=True):
        if isinstance(task.name, str):
            when[task.name] = start
        else:
            tensor, consumer, source, target = task.name
            end = start + task.seconds
            sent = Transfer(tensor=tensor, consumer=consumer, source=source, target=target, start=start, end=end)
            transfers.append(sent)
    return Schedule(device=device, start=when, transfers=transfers)


class _Search:
    """Depth first over the orders of some tasks."""

    def __init__(self, tasks: Sequence[Task], best: float | None) -> None:
        self._tasks = tasks
        self._best = best
        self._starts: list[float] | None = None
        self._tails = _tails(tasks)
        self._readers: list[list[int]] = [[] for _ in tasks]
        for j, task in enumerate(tasks):
            for i, _ in task.waits_for:
                self._readers[i].append(j)
        self._seen: set[object] = set()

    def run(self) -> list[float] | None:
        """The starts of the best order that beats what was known before; None when none does."""
        self._extend({}, {}, 0.0)
        return self._starts

    def _extend(self, starts: dict[int, float], free: dict[str, float], now: float) -> None:
        tasks = self._tasks
        ends = {i: start + tasks[i].seconds for i, start in starts.items()}
        if len(starts) == len(tasks):
            in_order = [starts[i] for i in range(len(tasks))]
            makespan = _makespan(tasks, in_order)
            if self._best is None or _beats(makespan, self._best):
                self._best, self._starts = makespan, in_order
            return
        waiting = {i: end for i, end in ends.items() if any(j not in starts for j in self._readers[i])}
        state = (frozenset(starts), tuple(sorted(free.items())), tuple(sorted(waiting.items())), now)
        if state in self._seen:
            return
        self._seen.add(state)
        ready = {
            i: _start(task, ends, free)
            for i, task in enumerate(tasks)
            if i not in starts and all(j in starts for j, _ in task.waits_for)
        }
        if self._best is not None and not _beats(self._lower_bound(starts, free, ready), self._best):
            return
        for i, start in sorted(ready.items(), key=lambda pair: (pair[1], -self._tails[pair[0]])):
            if start >= now:  # earlier ones wait for something that is yet to take their device or port
                occupied = dict.fromkeys(tasks[i].occupies, start + tasks[i].seconds)
                self._extend({**starts, i: start}, {**free, **occupied}, start)

    def _lower_bound(self, starts: Mapping[int, float], free: Mapping[str, float], ready: Mapping[int, float]) -> float:
        """No completion ends sooner: devices and ports have work left, ready tasks have others behind them."""
        busy_until = dict(free)
        for i, task in enumerate(self._tasks):
            for what in task.occupies if i not in starts else ():
                busy_until[what] = busy_until.get(what, 0.0) + task.seconds
        behind = [start + self._tails[i] for i, start in ready.items()]
        return max([0.0, *busy_until.values(), *behind])


def _beats(value: float, best: float) -> bool:
    return value < best * (1 - 1e-12)


def _makespan(tasks: Sequence[Task], starts: Sequence[float]) -> float:
    ends = [start + task.seconds for task, start in zip(tasks, starts, strict=True) if isinstance(task.name, str)]
    return max(ends, default=0.0)


def _start(task: Task, ends: Mapping[int, float], free: Mapping[str, float]) -> float:
    data = [ends[i] + delay for i, delay in task.waits_for]
    return max([0.0, *data, *(free.get(what, 0.0) for what in task.occupies)])


def _tails(tasks: Sequence[Task]) -> list[float]:
    """Longest way from the start of each task to the end of all."""
    tails = [task.seconds for task in tasks]
    for _ in tasks:
        for j, task in enumerate(tasks):
            for i, delay in task.waits_for:
                tails[i] = max(tails[i], tasks[i].seconds + delay + tails[j])
    return tails


def _lower_bound(tasks: Sequence[Task]) -> float:
    loads: dict[str, float] = {}
    for task in tasks:
        for what in task.occupies:
            loads[what] = loads.get(what, 0.0) + task.seconds
    return max([0.0, *_tails(tasks), *loads.values()])


def _seconds(problem: Placement, name: str, device: str) -> float | None:
    try:
        return problem.costs.seconds(name, device)
    except InvalidInputError:
        return None


def obeys(constraint: Constraint, where: Mapping[str, set[str]], held: Mapping[str, int]) -> bool:
    """Whether a constraint allows operators (or their parts) on these devices, which hold so many bytes."""
    match constraint:
        case Pin(op=name, device=device):
            return where[name] == {device}
        case Forbid(op=name, device=device):
            return device not in where[name]
        case Colocate(ops=names):
            return all(where[name] == where[names[0]] for name in names)
        case Separate(ops=names):
            return sum(len(where[name]) for name in names) == len(set().union(*(where[name] for name in names)))
        case MaxDevices(count=most):
            return len(set().union(*where.values())) <= most
        case MemoryCap(device=device, bytes=most):
            return held.get(device, 0) <= most
        case Precede():
            return True  # a matter of times: see tasks_of
    raise NotImplementedError(f"the oracle does not know {type(constraint).__name__}")
