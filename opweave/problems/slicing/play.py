"""The referee of slicing: tracks which cells of every tensor each device holds, and moves what is missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from opweave.problems.graph import Operator
from opweave.problems.slicing.details import SlicedStep, SlicingDetails
from opweave.problems.spec import FrozenDict
from opweave.problems.timeline import BEFORE, NEVER, ActivityKind, Names, Recorder, Timeline, devices_and_ports

if TYPE_CHECKING:
    from opweave.problems.slicing.spec import Slice, Slices, Slicing


class Block(NamedTuple):
    """Cells of a tensor: channels and rows [first, end). Empty blocks consist of zeros, so that they are all equal."""

    first_channel: int
    end_channel: int
    first_row: int
    end_row: int

    @property
    def cells(self) -> int:
        """Number of cells."""
        return (self.end_channel - self.first_channel) * (self.end_row - self.first_row)

    def shared(self, other: Block) -> Block:
        """Cells that both blocks contain."""
        return block(
            (max(self.first_channel, other.first_channel), min(self.end_channel, other.end_channel)),
            (max(self.first_row, other.first_row), min(self.end_row, other.end_row)),
        )


NOTHING = Block(0, 0, 0, 0)


def block(channels: tuple[int, int], rows: tuple[int, int]) -> Block:
    """Make a block of channels and rows [first, end)."""
    return Block(*channels, *rows) if channels[0] < channels[1] and rows[0] < rows[1] else NOTHING


class Playing:
    """Runs the operators in order, in the simplest way that is correct."""

    def __init__(self, problem: Slicing, solution: Slices) -> None:
        self._problem = problem
        self._solution = solution
        self._devices = [device.name for device in problem.cluster.devices]
        self._readers = Counter(tensor for op in problem.graph.operators for tensor in set(op.inputs))
        self._held: dict[str, list[Block]] = {}
        self._live, self._resident = [0] * len(self._devices), [0] * len(self._devices)
        self.peak = dict.fromkeys(self._devices, 0)
        self.peak_at: dict[str, str | None] = dict.fromkeys(self._devices)
        self._busy, self._receiving = dict.fromkeys(self._devices, 0.0), dict.fromkeys(self._devices, 0.0)
        self._bytes_in = dict.fromkeys(self._devices, 0)
        self._names = Names.of(problem.graph, "gathered outputs")
        self._recorder = Recorder()
        self._since: dict[str, float] = {}
        self._made_by: dict[str, list[int]] = {}

    def timeline(self) -> Timeline:
        """The timeline so far: a device receives the inputs of its part of an operator, then computes the part."""
        resources = devices_and_ports(self._problem.cluster, ("receive_port",))
        return Timeline("seconds", resources, self._names, self._recorder.activities(), self._recorder.lifetimes())

    def run(self) -> SlicingDetails:
        """Play the whole solution."""
        problem, graph = self._problem, self._problem.graph
        if problem.weights == "resident":
            for name, cut in self._solution.slices.items():
                for k, (first, end) in enumerate(parts_of(cut)):
                    size = self._weights(name, cut, end - first)
                    self._resident[k] += size
                    self._recorder.lifetime(problem.graph.operator_index[name], k, BEFORE, NEVER, size)
        self._place_inputs()
        now, steps = 0.0, []
        for name in self._solution.order:
            step = self._step(graph.operators[graph.operator_index[name]], now)
            now = step.end
            steps.append(step)
        seconds, size = self._gather(now)
        self._keep(tuple(self._held), NEVER)
        return SlicingDetails(
            latency=now + seconds,
            steps=tuple(steps),
            gather_seconds=seconds,
            gather_bytes=size,
            busy_seconds=FrozenDict(self._busy),
            receive_seconds=FrozenDict(self._receiving),
            bytes_in=FrozenDict(self._bytes_in),
            memory_bytes=FrozenDict(self.peak),
            memory_operator=FrozenDict(self.peak_at),
            memory_limits=FrozenDict(problem.memory_limits),
        )

    def _weights(self, name: str, cut: Slice, length: int) -> int:
        """Bytes of the weights that a part needs: all of them, or the channels' share, rounded up."""
        if length == 0:
            return 0
        size = self._problem.weight_bytes(name)
        return -(-size * length // cut.cuts[-1]) if cut.dimension == "channels" else size

    def _place_inputs(self) -> None:
        source = self._problem.input_device
        if source is None:
            self._measure(None, [0] * len(self._devices))
            return
        for tensor in self._problem.graph.inputs:
            self._hold(tensor, [self._all(tensor) if device == source else NOTHING for device in self._devices])
        self._measure(None, [0] * len(self._devices))
        self._since = dict.fromkeys(self._held, BEFORE)
        self._drop(self._problem.graph.inputs, 0.0)

    def _all(self, tensor: str) -> Block:
        extent = self._problem.extents[tensor]
        return block((0, extent.channels), (0, extent.rows))

    def _step(self, op: Operator, begin: float) -> SlicedStep:
        """Receive inputs, compute, keep the results, and drop what is not read again."""
        cut = self._solution.slices[op.id]
        parts = {k: part for k, part in enumerate(parts_of(cut)) if part[0] < part[1]}
        waits = dict.fromkeys(parts, 0.0)
        received = dict.fromkeys(parts, 0)
        moved = dict.fromkeys(parts, 0)
        airtime, offset = 0.0, 0
        for tensor in dict.fromkeys(op.inputs):
            needs = {k: self._needed(op, cut, part, tensor, offset) for k, part in parts.items()}
            offset += self._problem.extents[tensor].channels
            seconds = []
            for k, need in needs.items():
                received[k] += self._fetch(tensor, k, need)
                size = self._sent(op, cut, tensor, k, need)
                moved[k] += size
                seconds.append(self._transfer_seconds(k, size))
                waits[k] += seconds[-1]
            first = next(iter(needs.values()))
            together = all(need == first for need in needs.values())
            airtime += max(seconds) if together else sum(seconds)
        compute = {k: self._compute_seconds(op.id, k, (part[1] - part[0]) / cut.cuts[-1]) for k, part in parts.items()}
        shared = self._problem.channel == "shared"
        ends = {k: (airtime if shared else waits[k]) + compute[k] for k in parts}
        slowest = max(ends, key=lambda k: ends[k])
        end = begin + ends[slowest]
        for tensor in op.outputs:
            self._hold(tensor, self._made(cut, tensor))
            self._since[tensor] = begin
        working = [self._working(op, cut, k, received.get(k, 0)) for k in range(len(self._devices))]
        self._measure(op.id, working)
        self._record(op, begin, end, {k: ends[k] - compute[k] for k in parts}, compute, moved)
        for k, size in enumerate(working):
            self._recorder.lifetime(self._problem.graph.operator_index[op.id], k, begin, end, size)
        self._readers.subtract(set(op.inputs))
        self._drop((*op.inputs, *op.outputs), end)
        for k in parts:
            self._busy[self._devices[k]] += compute[k]
            self._receiving[self._devices[k]] += waits[k]
            self._bytes_in[self._devices[k]] += moved[k]
        return SlicedStep(
            operator=op.id,
            dimension=cut.dimension,
            start=begin,
            end=end,
            shares=FrozenDict({self._devices[k]: (b - a) / cut.cuts[-1] for k, (a, b) in parts.items()}),
            transfer_seconds=FrozenDict({self._devices[k]: seconds for k, seconds in waits.items()}),
            compute_seconds=FrozenDict({self._devices[k]: seconds for k, seconds in compute.items()}),
            bytes_in=FrozenDict({self._devices[k]: size for k, size in moved.items()}),
            airtime=airtime,
            slowest=self._devices[slowest],
        )

    def _record(
        self,
        op: Operator,
        begin: float,
        end: float,
        waits: Mapping[int, float],
        compute: Mapping[int, float],
        moved: Mapping[int, int],
    ) -> None:
        """Record what every device receives and computes in a step."""
        what, tensors = self._problem.graph.operator_index[op.id], self._problem.graph.tensor_index
        after = [
            (row, self._names.operators + tensors[tensor])
            for tensor in dict.fromkeys(op.inputs)
            for row in self._made_by.get(tensor, ())
        ]
        rows = []
        for k, wait in waits.items():
            first = list(after)
            if moved[k]:
                port = len(self._devices) + k
                got = self._recorder.activity(
                    ActivityKind.RECEIVE, port, what, begin, begin + wait, size=moved[k], after=after
                )
                first.append((got, -1))
            starts = begin + wait
            rows.append(
                self._recorder.activity(ActivityKind.RUN, k, what, starts, min(end, starts + compute[k]), after=first)
            )
        self._made_by |= dict.fromkeys(op.outputs, rows)

    def _needed(self, op: Operator, cut: Slice, part: tuple[int, int], tensor: str, offset: int) -> Block:
        """Cells of an input that a part reads, as one block from the first to the last cell."""
        problem, read = self._problem, self._problem.extents[tensor]
        geometry, every = problem.cuttings[op.id].geometry, (0, read.channels)
        if cut.dimension == "whole" or geometry is None:
            return self._all(tensor)
        first, last = part[0], part[1] - 1
        if cut.dimension == "rows":
            if read.rows == 1:
                return self._all(tensor)
            return block(every, geometry.window(*part, rows=read.rows))
        if read.channels == 1 or problem.transfers == "paper":
            return self._all(tensor)
        if geometry.channels == "mixed":
            length, deep = cut.cuts[-1], read.channels // geometry.groups
            first, last = first * geometry.groups // length * deep, (last * geometry.groups // length + 1) * deep - 1
        elif geometry.channels == "joined":
            first, last = first - offset, last - offset
        return block((max(0, first), min(read.channels, last + 1)), (0, read.rows))

    def _fetch(self, tensor: str, k: int, need: Block) -> int:
        """Bytes that device k receives in addition to what it holds; every cell must exist on some device."""
        held = self._held.get(tensor)
        extent = self._problem.extents[tensor]
        if held is None:
            return need.cells * extent.cell_bytes
        assert sum(need.shared(each).cells for each in held) == need.cells, f"no device holds all of {tensor!r}"
        return (need.cells - need.shared(held[k]).cells) * extent.cell_bytes

    def _sent(self, op: Operator, cut: Slice, tensor: str, k: int, need: Block) -> int:
        """Bytes that travel to device k for a tensor."""
        held, extent = self._held.get(tensor), self._problem.extents[tensor]
        if held is None or need == NOTHING:
            return 0  # graph inputs from outside, or nothing to read
        producer = self._problem.graph.producer.get(tensor)
        before = None if producer is None else self._solution.slices[producer]
        if self._problem.transfers == "paper" and before is not None and cut.dimension == before.dimension == "rows":
            above, below = before.cuts[k], before.cuts[k + 1]
            count = max(0, need.end_row - below) + max(0, above - need.first_row)
            return count * extent.channels * extent.cell_bytes
        return (need.cells - need.shared(held[k]).cells) * extent.cell_bytes

    def _transfer_seconds(self, k: int, size: int) -> float:
        return self._problem.latencies[k] + size / self._problem.rates[k] if size else 0.0

    def _compute_seconds(self, name: str, k: int, share: float) -> float:
        device = self._devices[k]
        fixed = self._problem.intercept(name, device)
        return fixed + (self._problem.known_seconds[name][device] - fixed) * share

    def _made(self, cut: Slice, tensor: str) -> list[Block]:
        """The block of a new tensor that every device holds."""
        extent = self._problem.extents[tensor]
        channels, rows = (0, extent.channels), (0, extent.rows)
        if cut.dimension == "rows":
            return [block(channels, part) for part in parts_of(cut)]
        if cut.dimension == "channels":
            return [block(part, rows) for part in parts_of(cut)]
        return [block(channels, rows) if first < end else NOTHING for first, end in parts_of(cut)]

    def _working(self, op: Operator, cut: Slice, k: int, received: int) -> int:
        """Bytes that count on a device only while an operator runs."""
        first, end = parts_of(cut)[k]
        workspace = -(-op.workspace_bytes * (end - first) // cut.cuts[-1])
        streamed = self._weights(op.id, cut, end - first) if self._problem.weights == "streamed" else 0
        return received + workspace + streamed

    def _hold(self, tensor: str, blocks: list[Block]) -> None:
        """Store which block of a tensor every device holds from now on."""
        self._held[tensor] = blocks
        for k, held in enumerate(blocks):
            self._live[k] += held.cells * self._problem.extents[tensor].cell_bytes

    def _measure(self, name: str | None, working: list[int]) -> None:
        for k, device in enumerate(self._devices):
            used = self._resident[k] + self._live[k] + working[k]
            if used > self.peak[device]:
                self.peak[device], self.peak_at[device] = used, name

    def _drop(self, tensors: tuple[str, ...], now: float) -> None:
        """Forget tensors that will not be read again."""
        kept = set(self._problem.graph.outputs)
        for tensor in dict.fromkeys(tensors):
            if self._readers[tensor] == 0 and tensor not in kept:
                self._keep((tensor,), now)
                for k, held in enumerate(self._held.pop(tensor, ())):
                    self._live[k] -= held.cells * self._problem.extents[tensor].cell_bytes

    def _keep(self, tensors: tuple[str, ...], until: float) -> None:
        """Record how long every device has held its parts of tensors."""
        for tensor in tensors:
            storage = self._names.operators + self._problem.graph.tensor_index[tensor]
            for k, held in enumerate(self._held.get(tensor, ())):
                size = held.cells * self._problem.extents[tensor].cell_bytes
                self._recorder.lifetime(storage, k, self._since[tensor], until, size)

    def _gather(self, now: float) -> tuple[float, int]:
        """Collect the outputs on one device, starting at ``now``; returns the seconds and bytes that this takes."""
        target = self._problem.output_device
        if target is None:
            return 0.0, 0
        k, seconds, total = self._devices.index(target), 0.0, 0
        for tensor in self._problem.graph.outputs:
            if tensor in self._held:
                size = self._fetch(tensor, k, self._all(tensor))
                lasts = self._transfer_seconds(k, size)
                if size:
                    self._recorder.activity(
                        ActivityKind.RECEIVE,
                        len(self._devices) + k,
                        self._names.operators + self._problem.graph.tensor_index[tensor],
                        now + seconds,
                        now + seconds + lasts,
                        size=size,
                        after=[(row, -1) for row in self._made_by.get(tensor, ())],
                    )
                seconds += lasts
                total += size
        self._recorder.lifetime(len(self._names.texts) - 1, k, now, NEVER, total)
        self._measure(None, [total if j == k else 0 for j in range(len(self._devices))])
        self._receiving[target] += seconds
        self._bytes_in[target] += total
        return seconds, total


def parts_of(cut: Slice) -> list[tuple[int, int]]:
    """Positions [first, end) of every device's part."""
    return list(zip(cut.cuts, cut.cuts[1:], strict=False))
