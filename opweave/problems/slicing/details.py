"""What the referee of slicing measures: seconds and bytes of every operator on every device."""

from __future__ import annotations

from opweave.problems.solution import Details
from opweave.problems.spec import FrozenDict, Many, Name, Seconds


class SlicedStep(Details):
    """One operator of a plan; where it says "by device", devices without a part are left out.

    Attributes
    ----------
    operator, dimension
        What runs, and along what it is cut.
    start, end
        Seconds.
    shares
        Part of the operator that each device computes, by device.
    transfer_seconds, compute_seconds, bytes_in
        What each device waits for data, computes and receives, by device.
    airtime
        Seconds that the router is busy if it carries one thing at a time: the largest receiver where all need the same
        (broadcast), the sum of them else.
    slowest
        The device that the others wait for.
    """

    operator: Name
    dimension: str
    start: Seconds
    end: Seconds
    shares: FrozenDict[Name, float]
    transfer_seconds: FrozenDict[Name, Seconds]
    compute_seconds: FrozenDict[Name, Seconds]
    bytes_in: FrozenDict[Name, int]
    airtime: Seconds
    slowest: Name


class SlicingDetails(Details):
    """What a plan does to devices and router.

    Attributes
    ----------
    latency
        From the beginning to the end of the last operator, or of the gathering, in seconds.
    steps
        The operators in the plan's order.
    gather_seconds, gather_bytes
        For bringing the outputs together at the end; 0 where nobody asks for that.
    busy_seconds, receive_seconds, bytes_in
        Of every device, over all operators.
    memory_bytes, memory_operator, memory_limits
        The most that every device holds, the operator that runs then (None: before the first), and what it may hold.
    """

    latency: Seconds
    steps: Many[SlicedStep]
    gather_seconds: Seconds
    gather_bytes: int
    busy_seconds: FrozenDict[Name, Seconds]
    receive_seconds: FrozenDict[Name, Seconds]
    bytes_in: FrozenDict[Name, int]
    memory_bytes: FrozenDict[Name, int]
    memory_operator: FrozenDict[Name, Name | None]
    memory_limits: FrozenDict[Name, int | None]
