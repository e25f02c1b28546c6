"""ServingFlow: give every device consecutive layers of a language model, so that the most tokens flow through them.

Source: Mei et al., "Helix: Serving Large Language Models over Heterogeneous GPUs and Network via Max-Flow" (ASPLOS
2025). Each request takes a path of its own through devices that together hold all layers, so tokens are a flow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from opweave.problems.cluster import Cluster
from opweave.problems.graph import Operator, OpGraph, Parameter, Tensor
from opweave.problems.on_cluster import ClusterProblem
from opweave.problems.problem import Problem
from opweave.problems.serving_flow.referee import PlayedFlow, ServingDetails, ServingUse, unusable
from opweave.problems.solution import Referee, Solution, grouped
from opweave.problems.spec import Amount, Lists, Name
from opweave.problems.words import refuse_unknown

__all__ = ["LayerBlocks", "ServingDetails", "ServingFlow", "ServingUse", "layer_chain"]

Entry = Literal["first", "any"]


class LayerBlocks(Solution):
    """The layers that every device holds, consecutive and in their order; devices without layers are left out."""

    operators: Lists[Name, Name]

    def devices_by_operator(self) -> Mapping[str, frozenset[str]]:
        """Devices that hold each layer."""
        return grouped((name, device) for device, names in self.operators.items() for name in names)


class ServingFlow(ClusterProblem, Problem[LayerBlocks, ServingDetails]):
    """Choose the layers of every device so that the devices together serve as many tokens a second as possible.

    Each token passes all layers in turn, on devices that hold them, and many requests are under way. So the tokens are
    a flow: from the coordinator to devices that hold the first layer, from a device on to those that hold the layer
    after its last one, and back to the coordinator from those that hold the last layer. The flow is limited by what
    devices compute, which depends on how many layers they hold, and by links. The objective is the mean time between
    two tokens: one second divided by the largest flow.

    Attributes
    ----------
    graph
        The layers as operators, each of which reads what the one before it makes; see :func:`layer_chain`. The bytes of
        a tensor are those of one token.
    cluster
        The devices and their links. Only direct links are used. With ``rates``, a device's connection limits what it
        receives before its first layer and what it sends behind its last one. What enters at a later layer
        (``entry="any"``) is limited only from each sender. A ``shared`` channel is refused.
    rates
        For every device, tokens per second with one layer, two layers, and so on; 0 where it cannot hold that many.
        Layers are taken to be alike.
    entry
        Where tokens may enter a device. ``"first"``: at its first layer. ``"any"``: at any layer that it holds; it runs
        only the later ones, but its speed stays that of all its layers (partial inference, as in the paper).

    Raises
    ------
    InvalidSpecError
        When the operators form no chain, names are unknown, or the cluster has one channel for all.

    Examples
    --------
    >>> from opweave.problems.cluster import Device
    >>> problem = ServingFlow(
    ...     graph=layer_chain(3, activation_bytes=4096),
    ...     cluster=Cluster(devices=[Device(name="a"), Device(name="b")], bandwidth=[[0, 8e6], [8e6, 0]]),
    ...     rates={"a": [300.0, 140.0, 90.0], "b": [200.0, 95.0]},
    ... )
    >>> plan = LayerBlocks(operators={"a": ["layers.0", "layers.1"], "b": ["layers.2"]})
    >>> judged = problem.evaluate(plan)
    >>> judged.details.tokens_per_second, judged.details.limits
    (140.0, ('a',))
    """

    solution_type: ClassVar[type[Solution]] = LayerBlocks
    referee: ClassVar[Referee] = unusable, PlayedFlow
    goal: ClassVar[str] = "seconds per token"

    schema_version: Literal[1] = 1
    cluster: Cluster = Field(kw_only=False)
    rates: Lists[Name, Amount]
    entry: Entry = "first"

    @model_validator(mode="after")
    def _check(self) -> ServingFlow:
        self._check_chain()
        refuse_unknown("rates names", "device", self.rates, self.cluster.device_index, "cluster")
        if self.cluster.shared is not None and len(self.cluster.devices) > 1:
            raise ValueError("the links are one shared channel; a flow needs bandwidth between devices, or rates")
        return self

    def _check_chain(self) -> None:
        if not self.graph.operators:
            raise ValueError("there are no layers; the graph needs an operator for each of them")
        last = None
        for number, name in enumerate(self.layers):
            reads = self._layer(name).inputs
            others = {str(self.graph.producer.get(tensor)) for tensor in reads} - {str(last)}
            if others or (number and not reads):
                what = repr(min(others)) if others else "nothing"
                raise ValueError(
                    f"the layers form no chain: {name!r} does not read from {last!r} alone, but from {what}; each "
                    "layer reads what the one before it makes, and nothing else"
                )
            last = name
        early = [name for name in self.graph.outputs if self.graph.producer.get(name) != last]
        if early:
            raise ValueError(f"the result {early[0]!r} is not made by the last layer, {last!r}")

    def _layer(self, name: str) -> Operator:
        return self.graph.operators[self.graph.operator_index[name]]

    @cached_property
    def layers(self) -> tuple[str, ...]:
        """The layers, from the first to the last."""
        order = self.graph.listed_order.tolist()
        return tuple(self.graph.operators[number].id for number in order)

    @cached_property
    def layer_index(self) -> dict[str, int]:
        """Position of every layer in the chain."""
        return {name: number for number, name in enumerate(self.layers)}

    @cached_property
    def crossing_bytes(self) -> tuple[int, ...]:
        """Bytes of a token before the first layer, between layers, and behind the last one."""
        graph, operators = self.graph, list(map(self._layer, self.layers))
        sent = [*(op.inputs for op in operators), graph.outputs or operators[-1].outputs]
        return tuple(sum(graph.tensors[graph.tensor_index[name]].bytes for name in {*names}) for names in sent)

    @cached_property
    def layer_bytes(self) -> tuple[int, ...]:
        """Bytes of the parameters of every layer."""
        sizes = self.graph.parameter_bytes
        return tuple(sum(sizes[name] for name in self._layer(op).parameters) for op in self.layers)

    def memory_by_device(self, solution: LayerBlocks) -> dict[str, int]:
        """Bytes of the parameters that every device holds."""
        sizes = dict(zip(self.layers, self.layer_bytes, strict=True))
        held = {name: sum(sizes.get(op, 0) for op in ops) for name, ops in solution.operators.items()}
        return {device.name: held.get(device.name, 0) for device in self.cluster.devices}


def layer_chain(
    count: int,
    *,
    activation_bytes: int,
    token_bytes: int = 0,
    layer_bytes: int | Sequence[int] = 0,
    name: str = "model",
) -> OpGraph:
    """Equal layers, one after the other, as the graph of a :class:`ServingFlow`.

    Parameters
    ----------
    count
        Number of layers.
    activation_bytes
        Bytes per token that are passed between consecutive layers.
    token_bytes
        Bytes per token that are sent to and from the coordinator.
    layer_bytes
        Bytes of parameters: one number for every layer, or a list.
    name
        Name of the graph.

    Examples
    --------
    >>> [op.id for op in layer_chain(2, activation_bytes=16_384).operators]
    ['layers.0', 'layers.1']
    """
    held = (layer_bytes,) * count if isinstance(layer_bytes, int) else layer_bytes
    sizes = (token_bytes, *(activation_bytes for _ in range(count - 1)), token_bytes)
    return OpGraph(
        name=name,
        tensors=tuple(Tensor(id=f"hidden.{k}", bytes=size) for k, size in enumerate(sizes)),
        operators=tuple(
            Operator(
                id=f"layers.{k}", inputs=(f"hidden.{k}",), outputs=(f"hidden.{k + 1}",), parameters=(f"weights.{k}",)
            )
            for k in range(count)
        ),
        parameters=tuple(Parameter(id=f"weights.{k}", bytes=size) for k, size in enumerate(held)),
        outputs=(f"hidden.{count}",),
    )
