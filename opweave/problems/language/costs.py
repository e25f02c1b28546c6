"""How long the groups of a language model take on every device."""

from __future__ import annotations

from collections.abc import Mapping

from opweave.problems.cluster import Cluster
from opweave.problems.costs import Costs, Efficiency
from opweave.problems.language.graph import language_graph
from opweave.problems.language.model import LanguageModel
from opweave.problems.language.workload import Workload, parts


def language_costs(
    model: LanguageModel,
    work: Workload,
    cluster: Cluster,
    *,
    efficiency: Mapping[str, float | Efficiency] | None = None,
    default_efficiency: float | Efficiency = 1.0,
) -> Costs:
    """Estimate seconds for each group on each device: the slower of arithmetic and memory traffic, plus the launch.

    Of experts and embeddings, only what the tokens of the pass use is read. See
    :meth:`~opweave.problems.costs.Costs.roofline` for the formula.

    Parameters
    ----------
    model, work, cluster
        The model, what it is asked to do, and the devices.
    efficiency
        Efficiency by role: "attention", "experts", ...
    default_efficiency
        The efficiency of other roles.

    Returns
    -------
    Costs
        Rows are the operators of :func:`~opweave.problems.language.graph.language_graph`.

    Raises
    ------
    InvalidInputError
        For a device without ``flops_per_second`` or ``memory_bandwidth``.
    """
    return Costs.roofline(
        language_graph(model, work),
        cluster,
        efficiency=efficiency,
        default_efficiency=default_efficiency,
        parameters_read={part.id: part.read_bytes for part in parts(model, work)},
    )
