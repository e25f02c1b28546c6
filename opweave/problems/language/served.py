"""Serving a language model with many requests at once, as a flow of tokens."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from opweave.problems.arrays import FloatMatrix
from opweave.problems.constraints import AnyConstraint
from opweave.problems.graph import Operator, OpGraph, Parameter
from opweave.problems.language.costs import language_costs
from opweave.problems.language.model import LanguageModel
from opweave.problems.language.rig import Rig
from opweave.problems.language.workload import Workload, parts
from opweave.problems.serving_flow.spec import ServingFlow, layer_chain

TOKEN_BYTES = 4
"""What a token is on its way from and to the coordinator: its number."""

MOST_SEQUENCES = 2**16
"""Most sequences whose caches a device is taken to hold."""


def serving_flow(
    model: LanguageModel, rig: Rig, work: Workload, *, constraints: Iterable[AnyConstraint] = ()
) -> ServingFlow:
    """Ask which layers every device should hold so that many requests together get the most tokens per second.

    A device with ``k`` of ``L`` layers has room for the caches of a number of sequences. The part ``k / L`` of them is
    on it at a time and is computed together, rounded down to a power of two. Its rate is their number divided by their
    seconds, as :func:`~opweave.problems.language.costs.language_costs` says. Layers count as the largest window of
    ``k``, so unlike layers are not promised too much. The table of tokens and the head weigh on whoever holds the first
    and the last layer, but take no time here.

    Parameters
    ----------
    model, rig
        The model and the devices; the host and machines of the rig do not matter.
    work
        A decode workload: the context of every request, and the types of its cache. Its ``sequences`` are ignored.
    constraints
        More side constraints.

    Raises
    ------
    InvalidInputError
        As :func:`~opweave.problems.language.workload.parts` and :meth:`~opweave.problems.costs.Costs.roofline`.
    """
    one = work.model_copy(update={"phase": "decode", "sequences": 1})
    held = np.zeros((2, len(model.layers)))
    for part in parts(model, one):
        if part.layer is not None:
            held[:, part.layer] += part.weight_bytes, part.cache_bytes
    weights, caches = (_windows(row[:, None]).T[0] for row in held)
    limits = {device.name: device.memory_bytes for device in rig.cluster.devices}
    limits |= {cap.device: cap.bytes for cap in rig.caps}
    seconds: dict[int, FloatMatrix] = {}
    rates: dict[str, list[float]] = {}
    for row, (name, limit) in enumerate(limits.items()):
        rates[name] = []
        for count in range(1, len(model.layers) + 1):
            free = np.inf if limit is None else limit - weights[count]
            room = MOST_SEQUENCES if caches[count] <= 0 else min(MOST_SEQUENCES, free // caches[count])
            if room < 1:
                break
            together = 2 ** int(np.log2(max(1, room * count // len(model.layers))))
            if together not in seconds:
                seconds[together] = _windows(_seconds(model, rig, one.model_copy(update={"sequences": together})))
            rates[name].append(float(together / seconds[together][count, row]))
    return ServingFlow(
        graph=_chain(model, held[0].astype(int).tolist()),
        cluster=rig.cluster,
        rates=rates,  # type: ignore[arg-type]  # mappings and lists become frozen
        constraints=(*rig.caps, *constraints),
    )


def _seconds(model: LanguageModel, rig: Rig, work: Workload) -> FloatMatrix:
    """Seconds of every layer on every device. Shape (layers, devices)."""
    costs = language_costs(model, work, rig.cluster, efficiency=rig.efficiency).values[:, :, 0]
    found = np.zeros((len(model.layers), costs.shape[1]))
    for row, part in enumerate(parts(model, work)):
        if part.layer is not None:
            found[part.layer] += costs[row]
    return found


def _windows(values: FloatMatrix) -> FloatMatrix:
    """The largest sum of consecutive rows, for every number of rows. Shape (rows + 1, columns)."""
    sums = np.concatenate([np.zeros((1, values.shape[1])), np.cumsum(values, axis=0)])
    return np.stack([(sums[count:] - sums[: len(sums) - count]).max(axis=0) for count in range(len(sums))])


def _chain(model: LanguageModel, sizes: list[int]) -> OpGraph:
    """Layers with their own bytes; the first has the table of tokens, too, and the last the head."""
    graph = layer_chain(len(sizes), activation_bytes=model.hidden_bytes, token_bytes=TOKEN_BYTES, name=model.name)
    parameters = [Parameter(id=f"weights.{k}", bytes=size) for k, size in enumerate(sizes)]
    parameters += [Parameter(id="embedding", bytes=model.embedding.bytes), Parameter(id="head", bytes=model.head.bytes)]
    more = {0: ("embedding",), len(sizes) - 1: ("head",)} if len(sizes) > 1 else {0: ("embedding", "head")}
    operators = tuple(
        Operator(id=op.id, inputs=op.inputs, outputs=op.outputs, parameters=(*op.parameters, *more.get(k, ())))
        for k, op in enumerate(graph.operators)
    )
    return OpGraph(
        name=graph.name,
        tensors=graph.tensors,
        operators=operators,
        parameters=tuple(parameters),
        outputs=graph.outputs,
    )
