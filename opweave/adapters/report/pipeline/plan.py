"""Stages as a plan for people and programs: a row for each stage, and who runs what."""

from __future__ import annotations

from collections.abc import Sequence

from opweave.adapters.report.units import precise_seconds, readable_bytes
from opweave.problems.pipeline.spec import Pipeline, PipelineDetails, Stages


def plan_json(problem: Pipeline, stages: Stages, details: PipelineDetails) -> dict[str, object]:
    """Write stages as plain data; ``details`` are theirs.

    Returns
    -------
    dict
        ``bottleneck_seconds``, ``inputs_per_second``, ``latency_seconds``; ``stages`` in pipeline order, each with
        ``device``, ``operators``, ``compute_seconds``, ``memory_bytes``, and what it sends to the next one.
    """
    return {
        "model": problem.graph.name,
        "assumptions": problem.assumptions(),
        "bottleneck_seconds": details.bottleneck_seconds,
        "bottleneck": details.bottleneck,
        "bottleneck_stage": details.bottleneck_stage,
        "inputs_per_second": details.inputs_per_second,
        "latency_seconds": details.latency_seconds,
        "stages": [
            {
                "device": stage.device,
                "operators": list(stage.operators),
                "compute_seconds": use.compute_seconds,
                "memory_bytes": use.memory_bytes,
                "memory_limit": use.memory_limit,
                "sent_tensors": list(use.sent_tensors),
                "sent_bytes": use.sent_bytes,
                "send_seconds": use.send_seconds,
            }
            for stage, use in zip(stages.stages, details.stages, strict=True)
        ],
    }


def stage_table(details: PipelineDetails) -> tuple[Sequence[str], list[Sequence[str]]]:
    """Write stages as headings and rows."""
    headings = ("stage", "device", "operators", "computes", "sends", "takes", "memory", "limit")
    rows: list[Sequence[str]] = []
    for number, use in enumerate(details.stages):
        marked = "*" if details.bottleneck_stage == number else ""
        last = number == len(details.stages) - 1
        rows.append(
            (
                f"{number + 1}{marked}",
                use.device,
                f"{use.operators:,}",
                precise_seconds(use.compute_seconds),
                "-" if last else readable_bytes(use.sent_bytes),
                "-" if last else precise_seconds(use.send_seconds),
                readable_bytes(use.memory_bytes),
                "-" if use.memory_limit is None else readable_bytes(use.memory_limit),
            )
        )
    return headings, rows
