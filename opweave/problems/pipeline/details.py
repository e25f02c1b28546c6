"""What the referee of pipelines measures: a row for each stage, and where the bottleneck is."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from opweave.problems.solution import Details
from opweave.problems.spec import Many, Name

Bottleneck = Literal["compute", "transfer", "channel", "nothing"]

Duration = Annotated[float, Field(ge=0.0)]
"""Seconds; over a very slow link, or added up, more than a problem may state."""


class StageUse(Details):
    """One stage.

    Attributes
    ----------
    device
        Its name.
    operators
        How many it runs.
    compute_seconds
        For one input; 0 where the problem leaves computing out.
    memory_bytes, memory_limit
        What the device holds, and what it may hold (side constraints included; None for no limit).
    sent_tensors, sent_bytes, send_seconds
        What goes to the next stage, before compression, and how long that takes; nothing for the last stage.
    """

    device: Name
    operators: int
    compute_seconds: Duration
    memory_bytes: int
    memory_limit: int | None
    sent_tensors: Many[Name] = ()
    sent_bytes: int = 0
    send_seconds: Duration = 0.0


class PipelineDetails(Details):
    """What a pipeline does.

    Attributes
    ----------
    stages
        In pipeline order.
    bottleneck_seconds
        Seconds between two results when inputs follow each other without a pause.
    bottleneck, bottleneck_stage
        What takes that long: a stage's ``"compute"``, a ``"transfer"`` out of a stage, or the shared ``"channel"``
        (no stage); ``"nothing"`` when it is 0.
    inputs_per_second
        1 / bottleneck; None when the bottleneck is 0.
    latency_seconds
        From the first input's start to its result, alone in the pipeline.
    transfer_seconds
        Of all transfers of one input, added up.
    simulated_ends
        When the results of the first inputs are there, by simulation.
    """

    stages: Many[StageUse]
    bottleneck_seconds: Duration
    bottleneck: Bottleneck
    bottleneck_stage: int | None
    inputs_per_second: float | None
    latency_seconds: Duration
    transfer_seconds: Duration
    simulated_ends: Many[Duration]
