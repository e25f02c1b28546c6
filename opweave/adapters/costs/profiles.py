"""Costs from a profile of ONNX Runtime: the seconds of its operators."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from opweave.problems.costs import Costs
from opweave.problems.errors import InvalidInputError, plain
from opweave.problems.graph import OpGraph

SUFFIX = "_kernel_time"
"""End of the names of events that are runs of operators."""


def kernel_seconds(data: object, where: str) -> dict[str, float]:
    """Median seconds of every node over the runs of a profile, without the first of several runs, which warms up.

    Parameters
    ----------
    data
        The profile's JSON: a list of events.
    where
        Name of the profile in errors.

    Raises
    ------
    InvalidInputError
        When the profile has no such events.

    Examples
    --------
    >>> event = {"cat": "Node", "name": "conv_kernel_time", "dur": 250, "args": {"op_name": "Conv"}}
    >>> kernel_seconds([event], "example")
    {'conv': 0.00025}
    """
    rows: dict[str, list[float]] = {}
    for event in data if isinstance(data, list) else ():
        if not isinstance(event, Mapping) or event.get("cat") != "Node":
            continue
        name, took = event.get("name"), event.get("dur")
        if not isinstance(name, str) or not name.endswith(SUFFIX) or isinstance(took, bool):
            continue
        if not isinstance(took, int | float) or not took >= 0:
            raise InvalidInputError(f"{where}: event {plain(name)!r} has no duration of 0 or more microseconds")
        rows.setdefault(_node(name, event.get("args")), []).append(took * 1e-6)
    if not rows:
        raise InvalidInputError(
            f"{where}: not a profile of ONNX Runtime, or one without nodes; set enable_profiling of the SessionOptions"
        )
    return {name: statistics.median(row[1:] or row) for name, row in rows.items()}


def _node(name: str, about: object) -> str:
    """The node's name; for a node without a name, kind and position, as in :mod:`opweave.adapters.onnx.read`."""
    given = name.removesuffix(SUFFIX)
    if given or not isinstance(about, Mapping):
        return given
    return f"{about.get('op_name')}_{about.get('node_index')}"


def profile_costs(data: Sequence[object], where: str, *, graph: OpGraph | None = None, device: str = "cpu") -> Costs:
    """Make costs from a profile's events; see :func:`~opweave.adapters.load.load_costs`.

    Raises
    ------
    InvalidInputError
        For events that are not a profile, and operators of ``graph`` without a time.
    """
    seconds = kernel_seconds(data, where)
    if graph is not None:
        lacking = [op.id for op in graph.operators if op.id not in seconds]
        if lacking:
            more = f" and {len(lacking) - 1:,} more" if len(lacking) > 1 else ""
            raise InvalidInputError(
                f"{where}: has no time for operator {lacking[0]!r}{more}; "
                "profile the same model that is planned: either switch graph optimisation off, or plan the model that "
                "optimized_model_filepath wrote"
            )
        seconds = {op.id: seconds[op.id] for op in graph.operators}
    return Costs.from_table({name: {device: took} for name, took in seconds.items()})
