"""What the referees of all schedules measure: a table of the devices, and the critical path."""

from __future__ import annotations

from typing import Literal

from opweave.problems.solution import Details
from opweave.problems.spec import FrozenDict, Many, Name, Seconds
from opweave.problems.timeline import ResourceKind

Wait = Literal["nothing", "data"] | ResourceKind


class CriticalStep(Details):
    """One operator or transfer of a critical path.

    Attributes
    ----------
    operator
        The operator that runs; None for a transfer.
    tensor, consumer
        The tensor that is sent and, if it is sent for one reader, that reader; None for an operator.
    source, target
        Devices of the transfer; for an operator, both are its device.
    start, end
        Seconds.
    waited_for
        What the step before it in the path was to it: its ``"data"``, or what held its ``"device"``, ``"send_port"`` or
        another of its resources before; ``"nothing"`` for the first step.
    """

    operator: Name | None = None
    tensor: Name | None = None
    consumer: Name | None = None
    source: Name
    target: Name
    start: Seconds
    end: Seconds
    waited_for: Wait


class DeviceDetails(Details):
    """How a schedule uses the devices.

    Attributes
    ----------
    makespan
        Latest end of all runs, in seconds; 0 for a graph without operators.
    ends
        Latest end of every operator, in seconds.
    busy_seconds, idle_seconds
        By device, up to the makespan.
    send_seconds, receive_seconds
        By device: the sum of the transfers that the schedule makes necessary. On devices without ports, transfers may
        overlap, so the sum may exceed the makespan.
    bytes_in, bytes_out
        Bytes that every device receives and sends.
    memory_bytes, memory_limits
        Bytes that every device holds, and the most that it may hold (side constraints included; None for no limit).
    transfer_count
        Number of transfers that the schedule makes necessary.
    critical_path
        Steps from the beginning to the makespan. No step could start before the step in front of it had ended. If a
        step starts later than that, nothing in the plan explains the delay.
    """

    makespan: Seconds
    ends: FrozenDict[Name, Seconds]
    busy_seconds: FrozenDict[Name, Seconds]
    idle_seconds: FrozenDict[Name, Seconds]
    send_seconds: FrozenDict[Name, Seconds]
    receive_seconds: FrozenDict[Name, Seconds]
    bytes_in: FrozenDict[Name, int]
    bytes_out: FrozenDict[Name, int]
    memory_bytes: FrozenDict[Name, int]
    memory_limits: FrozenDict[Name, int | None]
    transfer_count: int
    critical_path: Many[CriticalStep]
