"""What the referee of batched mapping measures: throughput, a table of the devices, and the critical path."""

from __future__ import annotations

from opweave.problems.placement_details import CriticalStep
from opweave.problems.solution import Details
from opweave.problems.spec import FrozenDict, Many, Name, Seconds


class BatchedDetails(Details):
    """What a batched schedule does to the devices.

    Attributes
    ----------
    makespan
        End of the last batch, in seconds; 0 for a graph without operators.
    inputs_per_second
        Inputs of the whole batch over the makespan; None when the makespan is 0.
    ends
        End of the last batch of every operator, in seconds.
    busy_seconds, idle_seconds
        Of every device, up to the makespan.
    send_seconds, receive_seconds
        Of every device: the transfers that the chosen batches make necessary, added up. They may overlap.
    bytes_in, bytes_out
        Bytes that every device receives and sends, counted for each reading operator by itself.
    memory_bytes, memory_limits
        What every device holds, and what it may hold (side constraints included; None for no limit).
    batch_count, transfer_count
        Batches; transfers that they make necessary, one for each tensor, reading operator and two devices.
    critical_path
        From the beginning to the last end: each step could not start before the step in front of it had ended.
    """

    makespan: Seconds
    inputs_per_second: float | None
    ends: FrozenDict[Name, Seconds]
    busy_seconds: FrozenDict[Name, Seconds]
    idle_seconds: FrozenDict[Name, Seconds]
    send_seconds: FrozenDict[Name, Seconds]
    receive_seconds: FrozenDict[Name, Seconds]
    bytes_in: FrozenDict[Name, int]
    bytes_out: FrozenDict[Name, int]
    memory_bytes: FrozenDict[Name, int]
    memory_limits: FrozenDict[Name, int | None]
    batch_count: int
    transfer_count: int
    critical_path: Many[CriticalStep]
