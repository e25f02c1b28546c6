"""The machines of a plan as the command line names them: a cluster, times, and pins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opweave.adapters import clusters
from opweave.adapters.load import load_costs
from opweave.adapters.views import View
from opweave.problems.costs import Costs
from opweave.problems.errors import InvalidInputError
from opweave.problems.graph import OpGraph

ROOFLINE = "roofline"


def check_hardware(
    view: type[View[Any, Any]], *, cluster: str | None, costs: str | None, pin: Sequence[str] | None
) -> None:
    """Refuse a problem without the machines that it needs, or with machines that it has no use for.

    Raises
    ------
    InvalidInputError
        Naming the flag.
    """
    if "cluster" in view.problem_type.model_fields:
        if cluster is None:
            raise InvalidInputError(f"problem {view.word} needs --cluster: a file or a preset's name")
        return
    for flag, value in (("--cluster", cluster), ("--costs", costs), ("--pin", pin)):
        if value:
            raise InvalidInputError(f"problem {view.word} has no use for {flag}; leave it out")


def hardware(graph: OpGraph, cluster: str | None, costs: str | None) -> dict[str, object]:
    """Load the cluster, and the times of the graph's operators on it; nothing where no cluster is named.

    Raises
    ------
    InvalidInputError, LimitExceededError
        With one sentence that says what is wrong, where, and what to do.
    """
    if cluster is None:
        return {}
    machines = clusters.load(cluster)
    clusters.check_links(machines)
    if costs in (None, ROOFLINE):
        return {"cluster": machines, "costs": Costs.roofline(graph, machines)}
    return {"cluster": machines, "costs": load_costs(str(costs))}


def pins(texts: Sequence[str] | None) -> tuple[dict[str, str], ...]:
    """Read pins written as ``OP=DEVICE``; an operator's name may hold ``=`` itself.

    Raises
    ------
    InvalidInputError
        For a text of another form, and an operator that is pinned twice.

    Examples
    --------
    >>> pins(["conv=a"])
    ({'kind': 'pin', 'op': 'conv', 'device': 'a'},)
    """
    found: dict[str, str] = {}
    for text in texts or ():
        op, equals, device = text.rpartition("=")
        if not (equals and op and device):
            raise InvalidInputError(f"--pin {text!r:.80}: write it as OPERATOR=DEVICE")
        if op in found:
            raise InvalidInputError(f"--pin {text!r:.80}: {op!r} is already pinned to {found[op]!r}; keep one of them")
        found[op] = device
    return tuple({"kind": "pin", "op": op, "device": device} for op, device in found.items())
