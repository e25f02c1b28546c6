"""Questions about a language model on some devices, as placements and pipelines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from opweave.problems.arrays import FloatMatrix
from opweave.problems.cluster import Cluster
from opweave.problems.constraints import AnyConstraint, Colocate, Pin
from opweave.problems.costs import Costs
from opweave.problems.graph import OpGraph, Tensor
from opweave.problems.language.model import LanguageModel
from opweave.problems.language.rig import Rig
from opweave.problems.language.rules import Beside, InOrder
from opweave.problems.language.workload import TOKEN_BYTES, Workload, language_costs, language_graph, parts
from opweave.problems.pipeline.spec import Pipeline
from opweave.problems.placement.spec import Placement
from opweave.problems.serving_flow.spec import ServingFlow, layer_chain


def fastest_pass(
    model: LanguageModel, rig: Rig, work: Workload, *, constraints: Iterable[AnyConstraint] = ()
) -> Placement:
    """State a placement of the groups of a model, with the time of one pass as the objective.

    A pass of a decode workload gives one token for each sequence, and one of a prefill workload reads a batch of the
    prompt. Every group may be on any device; the table of tokens is on the host, if the rig has one. Devices hold
    weights and caches; the rig's reserve has what else they need.

    Parameters
    ----------
    model, rig, work
        The model, the devices, and what is asked of them.
    constraints
        More side constraints, such as :func:`whole_layers`.

    Raises
    ------
    InvalidInputError
        As :func:`~opweave.problems.language.workload.parts` and :meth:`~opweave.problems.costs.Costs.roofline`.
    """
    graph = language_graph(model, work)
    costs = language_costs(model, work, rig.cluster, efficiency=rig.efficiency)
    return _placed(graph, rig, rig.cluster, costs, constraints)


def fastest_request(
    model: LanguageModel, rig: Rig, prompt: Workload, answer: int, *, constraints: Iterable[AnyConstraint] = ()
) -> Placement:
    """State a placement of the groups, with the time of a prompt and its answer as the objective.

    The makespan is that of reading the prompt, in passes, and of ``answer`` tokens, each with the context that the
    answer has on average. Caches have room for both. What several passes send is one transfer, with as many latencies.

    Parameters
    ----------
    model, rig
        The model and the devices.
    prompt
        A prefill workload; its context is the prompt.
    answer
        Tokens of the answer.
    constraints
        More side constraints.

    Raises
    ------
    InvalidInputError
        As :func:`fastest_pass`.
    """
    whole = prompt.model_copy(update={"phase": "decode", "context": prompt.context + answer})
    middle = whole.model_copy(update={"context": prompt.context + (answer + 1) // 2})
    first, then = (language_costs(model, work, rig.cluster, efficiency=rig.efficiency) for work in (prompt, middle))
    seconds = prompt.passes * first.values[:, :, 0] + answer * then.values[:, :, 0]
    costs = Costs(operators=first.operators, devices=first.devices, table=tuple(map(tuple, seconds.tolist())))
    graph = language_graph(model, whole)
    sent = {tensor.id: prompt.passes * tensor.bytes for tensor in language_graph(model, prompt).tensors}
    graph = _sending(graph, {tensor.id: sent[tensor.id] + answer * tensor.bytes for tensor in graph.tensors})
    return _placed(graph, rig, _slower(rig.cluster, prompt.passes + answer), costs, constraints)


def steady_stream(
    model: LanguageModel, rig: Rig, work: Workload, groups: int, *, constraints: Iterable[AnyConstraint] = ()
) -> Pipeline:
    """State a pipeline of whole layers, at most one stage for each device, that groups of requests pass in turn.

    The objective is the seconds between the results of two groups; with as many groups as stages, all stages are busy.

    Parameters
    ----------
    model, rig
        The model and the devices.
    work
        What one group asks of every stage; its ``sequences`` are computed together.
    groups
        Groups under way. A stage holds the caches of all of them.
    constraints
        More side constraints.

    Raises
    ------
    InvalidInputError
        As :func:`fastest_pass`.
    """
    held = language_graph(model, work.model_copy(update={"sequences": work.sequences * groups}))
    return Pipeline(
        graph=_sending(held, {tensor.id: tensor.bytes for tensor in language_graph(model, work).tensors}),
        cluster=rig.cluster,
        costs=language_costs(model, work, rig.cluster, efficiency=rig.efficiency),
        cuts="prefix",
        memory="parameters",
        inputs="everywhere",
        constraints=(*rig.caps, *whole_layers(model, work), *constraints),
    )


def whole_layers(model: LanguageModel, work: Workload) -> tuple[Colocate, ...]:
    """The side constraints that keep the groups of every layer on one device."""
    members: dict[int, list[str]] = {}
    for part in parts(model, work):
        if part.layer is not None:
            members.setdefault(part.layer, []).append(part.id)
    return tuple(Colocate(ops=tuple(ids)) for ids in members.values() if len(ids) > 1)


def by_layer(model: LanguageModel, rig: Rig, work: Workload) -> tuple[AnyConstraint, ...]:
    """The side constraints that llama.cpp's options can carry out.

    The router is where its layer's attention is. Experts and feed-forward parts are there, too, or in host memory; of a
    rig without a host, layers are whole.
    """
    if rig.host is None:
        return whole_layers(model, work)
    rules: list[AnyConstraint] = []
    for number, layer in enumerate(model.layers):
        first = f"layers.{number}.{layer.first}"
        for group in layer.groups[1:]:
            op = f"layers.{number}.{group.role}"
            beside = Beside(op=op, other=first, device=rig.host)
            rules.append(Colocate(ops=(first, op)) if group.role == "router" else beside)
    return tuple(rules)


def in_blocks(model: LanguageModel, rig: Rig, work: Workload) -> tuple[AnyConstraint, ...]:
    """The side constraints of llama.cpp: one block of layers for each device, parts of them in host memory."""
    return (*by_layer(model, rig, work), *_blocks(model, rig.host, range(len(model.layers))))


def with_overrides(model: LanguageModel, rig: Rig) -> tuple[AnyConstraint, ...]:
    """The side constraints of llama.cpp with ``-ot``: one block for each device of what keeps caches, the rest free."""
    keeping = [n for n, layer in enumerate(model.layers) if layer.cache.key_width or layer.cache.state_bytes]
    return _blocks(model, rig.host, keeping)


def in_stages(model: LanguageModel, rig: Rig, work: Workload) -> tuple[AnyConstraint, ...]:
    """The side constraints of vLLM: one block of whole layers for each device, the table first and the head last.

    With a host, which keeps the table, the head may be anywhere.
    """
    last = len(model.layers) - 1
    ends = ("embedding", f"layers.0.{model.layers[0].first}"), (f"layers.{last}.{model.layers[last].first}", "head")
    tied = () if rig.host is not None else tuple(Colocate(ops=pair) for pair in ends)
    return (*whole_layers(model, work), *tied, *_blocks(model, rig.host, range(len(model.layers))))


def _blocks(model: LanguageModel, host: str | None, layers: Sequence[int]) -> tuple[InOrder, ...]:
    ops = tuple(f"layers.{number}.{model.layers[number].first}" for number in layers)
    return (InOrder(ops=ops, first=host),) if len(ops) > 1 else ()


def _placed(
    graph: OpGraph, rig: Rig, cluster: Cluster, costs: Costs, constraints: Iterable[AnyConstraint]
) -> Placement:
    table = () if rig.host is None else (Pin(op="embedding", device=rig.host),)
    return Placement(
        graph=graph,
        cluster=cluster,
        costs=costs,
        transfers="delay",
        memory="parameters",
        constraints=(*rig.caps, *table, *constraints),
    )


def _sending(graph: OpGraph, sizes: Mapping[str, int]) -> OpGraph:
    """The graph with other bytes of its tensors."""
    return graph.model_copy(update={"tensors": tuple(Tensor(id=name, bytes=size) for name, size in sizes.items())})


def _slower(cluster: Cluster, times: int) -> Cluster:
    """The cluster with a multiple of its latency."""
    longer = (times * np.asarray(cluster.latency)).tolist()
    return cluster.model_copy(update={"latency": tuple(map(tuple, longer)) if isinstance(longer, list) else longer})


MOST_SEQUENCES = 2**16
"""Most sequences whose caches a device is taken to hold."""


def serving_flow(
    model: LanguageModel, rig: Rig, work: Workload, *, constraints: Iterable[AnyConstraint] = ()
) -> ServingFlow:
    """State a serving flow: the layers that every device should hold to serve the most tokens per second.

    A device with ``k`` of ``L`` layers has room for the caches of a number of sequences. The part ``k / L`` of them is
    on it at a time and is computed together, rounded down to a power of two. Its rate is their number divided by their
    seconds, as :func:`~opweave.problems.language.workload.language_costs` says. Layers count as the largest window of
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
        rates=rates,
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
    sizes[0] += model.embedding.bytes
    sizes[-1] += model.head.bytes
    return layer_chain(
        len(sizes), activation_bytes=model.hidden_bytes, token_bytes=TOKEN_BYTES, layer_bytes=sizes, name=model.name
    )
