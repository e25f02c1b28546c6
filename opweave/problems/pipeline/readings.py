"""Which readings of a pipeline go together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opweave.problems.words import did_you_mean

if TYPE_CHECKING:
    from opweave.problems.pipeline.spec import Pipeline


def check_readings(problem: Pipeline) -> None:
    """Refuse readings that contradict each other.

    Raises
    ------
    ValueError
        With a sentence that says which, and what to choose instead.
    """
    if problem.cuts == "ideals" and problem.order is not None:
        raise ValueError("order fixes the order of the operators, and cuts='ideals' has none: use cuts='prefix'")
    if problem.channel == "shared":
        _check_shared(problem)
    if problem.delivery == "host":
        _check_host(problem)
    elif problem.load == "sum" and problem.max_visits != 1:
        raise ValueError(
            "load='sum' needs max_visits=1, because two transfers of a device may exclude each other; use "
            "delivery='host' or load='overlap'"
        )
    if problem.max_replicas > 1:
        _check_replicas(problem)
    for name in problem.stateful:
        if name not in problem.graph.operator_index:
            known = problem.graph.operator_index
            raise ValueError(f"stateful names {name!r}, which is not an operator{did_you_mean(name, known)}")


def _check_shared(problem: Pipeline) -> None:
    asked = {"load='sum'": problem.load == "sum", "delivery='host'": problem.delivery == "host"}
    asked["max_replicas"] = problem.max_replicas > 1
    for what, there in asked.items():
        if there:
            raise ValueError(f"{what} counts the time of every device's own connection: use channel='dedicated'")


def _check_host(problem: Pipeline) -> None:
    cluster = problem.cluster
    if cluster.rates is None and len(cluster.devices) > 1:
        raise ValueError("delivery='host' needs cluster.rates, the connection of every device to the common memory")
    if isinstance(cluster.latency, tuple):
        raise ValueError("delivery='host' needs one latency for all connections, not a matrix between devices")


def _check_replicas(problem: Pipeline) -> None:
    if problem.objective != "bottleneck":
        raise ValueError(f"replicas help only objective='bottleneck'; with {problem.objective!r} use max_replicas=1")
    if problem.device_order is not None:
        raise ValueError("device_order gives devices one after the other, not in turns: use max_replicas=1")
    if problem.max_visits != 1:
        raise ValueError("a device of a stage with replicas has no other stage: use max_visits=1 or max_replicas=1")
