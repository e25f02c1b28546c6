"""What the referee of batched mapping measures."""

from __future__ import annotations

from opweave.problems.device_details import DeviceDetails


class BatchedDetails(DeviceDetails):
    """What a batched schedule does to the devices; transfers are counted for each reading operator by itself.

    Attributes
    ----------
    inputs_per_second
        Inputs of the whole batch over the makespan; None when the makespan is 0.
    batch_count
        Batches that run.
    """

    inputs_per_second: float | None
    batch_count: int
