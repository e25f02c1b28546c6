"""What the referee of pipelines measures: a row for each stage, and the bottleneck."""

from __future__ import annotations

from typing import Literal

from opweave.problems.solution import Details
from opweave.problems.spec import Duration, Many, Name

Bottleneck = Literal["compute", "transfer", "stage", "channel", "nothing"]


class StageUse(Details):
    """One stage.

    Attributes
    ----------
    device
        Name of the device.
    replicas
        Names of the devices that take turns with it.
    operators
        Number of operators that the stage runs.
    compute_seconds
        Seconds for one input; 0 if the problem ignores computing.
    memory_bytes, memory_limit
        Bytes that the device holds, and the most that it may hold (side constraints included; None for no limit).
    sent_tensors, sent_bytes, send_seconds
        Number and bytes (before compression) of the tensors sent to the next stage, and the seconds that this takes; 0
        for the last stage.
    receive_seconds
        Seconds until everything that the stage reads has come in.
    """

    device: Name
    replicas: Many[Name] = ()
    operators: int
    compute_seconds: Duration
    memory_bytes: int
    memory_limit: int | None
    sent_tensors: Many[Name] = ()
    sent_bytes: int = 0
    send_seconds: Duration = 0.0
    receive_seconds: Duration = 0.0


class PipelineDetails(Details):
    """How a pipeline performs.

    Attributes
    ----------
    stages
        In pipeline order.
    bottleneck_seconds
        Seconds between two results when inputs follow each other without a pause.
    bottleneck, bottleneck_stage
        The activity that takes that long: a stage's ``"compute"``, a ``"transfer"`` out of a stage, all that a
        ``"stage"`` does (``load="sum"``), or the shared ``"channel"`` (without a stage); ``"nothing"`` when it takes 0
        seconds.
    inputs_per_second
        1 / bottleneck; None when the bottleneck is 0.
    latency_seconds
        Seconds from the first input's start to its result, when it is alone in the pipeline.
    transfer_seconds
        Sum of all transfers of one input.
    simulated_ends
        Times when the results of the first inputs are ready, by simulation.
    """

    stages: Many[StageUse]
    bottleneck_seconds: Duration
    bottleneck: Bottleneck
    bottleneck_stage: int | None
    inputs_per_second: float | None
    latency_seconds: Duration
    transfer_seconds: Duration
    simulated_ends: Many[Duration]
