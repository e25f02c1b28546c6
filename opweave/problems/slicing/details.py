"""What the referee of slicing measures: seconds and bytes of every operator on every device."""

from __future__ import annotations

from opweave.problems.solution import Details
from opweave.problems.spec import Duration, FrozenDict, Many, Name


class SlicedStep(Details):
    """One operator of a plan. Mappings by device omit devices without a part.

    Attributes
    ----------
    operator, dimension
        The operator, and the dimension along which it is cut.
    start, end
        Seconds.
    shares
        Share of the operator that each device computes, by device.
    transfer_seconds, compute_seconds, bytes_in
        Seconds that each device receives data and computes, and bytes that it receives, by device.
    airtime
        Seconds that the router is busy if it carries one thing at a time: the largest receiver if all receivers need
        the same data (broadcast), otherwise the sum over the receivers.
    slowest
        The device that the others wait for.
    """

    operator: Name
    dimension: str
    start: Duration
    end: Duration
    shares: FrozenDict[Name, float]
    transfer_seconds: FrozenDict[Name, Duration]
    compute_seconds: FrozenDict[Name, Duration]
    bytes_in: FrozenDict[Name, int]
    airtime: Duration
    slowest: Name


class SlicingDetails(Details):
    """How a plan uses devices and router.

    Attributes
    ----------
    latency
        Seconds from the beginning to the end of the last operator, or of the gathering.
    steps
        The operators in the plan's order.
    gather_seconds, gather_bytes
        Cost of bringing the outputs together at the end; 0 if the problem does not gather them.
    busy_seconds, receive_seconds, bytes_in
        By device, over all operators.
    memory_bytes, memory_operator, memory_limits
        The most that every device holds, the operator during which it does (None: before the first), and its limit.
    """

    latency: Duration
    steps: Many[SlicedStep]
    gather_seconds: Duration
    gather_bytes: int
    busy_seconds: FrozenDict[Name, Duration]
    receive_seconds: FrozenDict[Name, Duration]
    bytes_in: FrozenDict[Name, int]
    memory_bytes: FrozenDict[Name, int]
    memory_operator: FrozenDict[Name, Name | None]
    memory_limits: FrozenDict[Name, int | None]
