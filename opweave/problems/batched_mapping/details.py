"""What the referee of batched mapping measures."""

from __future__ import annotations

from opweave.problems.device_details import DeviceDetails


class BatchedDetails(DeviceDetails):
    """How a batched schedule uses the devices; each reading operator has transfers of its own.

    Attributes
    ----------
    inputs_per_second
        Inputs of the whole batch divided by the makespan; None when the makespan is 0.
    batch_count
        Number of batches that run.
    """

    inputs_per_second: float | None
    batch_count: int
