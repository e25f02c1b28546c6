"""A language model as a graph of operators, one for each group of tensors."""

from __future__ import annotations

from opweave.problems.graph import Operator, OpGraph, Parameter, Tensor
from opweave.problems.language.model import LanguageModel
from opweave.problems.language.workload import LOGIT_BYTES, Part, Workload, parts

TOKEN_BYTES = 4
"""A token's number, and the weight of one expert for one token."""


def language_graph(model: LanguageModel, work: Workload) -> OpGraph:
    """The graph of one pass: an operator for each group, with its weights and its cache as parameters.

    The ids are those of :func:`~opweave.problems.language.workload.parts`. A cache is a parameter of its own,
    "layers.3.cache", because it stays where it is as weights do. A tied matrix is one parameter, "tied", of the
    embedding and the head; no operator reads "idle", the tensors that are never read. Experts and the feed-forward part
    beside them read the same activation, and the last of them writes the layer's result.

    Kinds are roles. The graph does not say how many of the experts are read; costs come from
    :func:`~opweave.problems.language.costs.language_costs`, which knows.

    Returns
    -------
    OpGraph
        Bytes of tensors are those of all tokens of the pass.

    Raises
    ------
    InvalidInputError
        As :func:`~opweave.problems.language.workload.parts`.
    """
    found = parts(model, work)
    hidden = model.hidden_bytes * work.tokens
    tensors = [Tensor(id="tokens", bytes=TOKEN_BYTES * work.tokens)]
    operators = []
    entering, latest = "tokens", "tokens"  # what the layer's groups read, and what was written last
    for index, part in enumerate(found):
        last = part.role in ("embedding", "attention", "head") or _ends_layer(found, index)
        if part.role == "router":
            size = TOKEN_BYTES * model.groups[index + 1].used * 2 * work.tokens
        elif part.role == "head":
            size = LOGIT_BYTES * model.vocabulary * (work.sequences if work.phase == "decode" else 1)
        else:
            size = hidden
        written = Tensor(id=f"{part.id}.out", bytes=size)
        operators.append(
            Operator(
                id=part.id,
                kind="Embedding" if part.role == "embedding" else part.role,  # a kind that picks rows
                inputs=tuple(dict.fromkeys((entering, latest))),
                outputs=(written.id,),
                parameters=_parameters_of(part, model),
                flops=part.flops,
                module=part.id,
            )
        )
        tensors.append(written)
        latest = written.id
        if last:
            entering = latest
    return OpGraph(
        name=model.name,
        operators=tuple(operators),
        tensors=tuple(tensors),
        parameters=tuple(_parameters(found, model)),
        outputs=(latest,),
    )


def _ends_layer(found: tuple[Part, ...], index: int) -> bool:
    return found[index].layer != found[index + 1].layer


def _parameters_of(part: Part, model: LanguageModel) -> tuple[str, ...]:
    names = [part.id]
    if part.cache_bytes:
        names.append(f"layers.{part.layer}.cache")
    if model.tied_bytes and part.role in ("embedding", "head"):
        names.append("tied")
    return tuple(names)


def _parameters(found: tuple[Part, ...], model: LanguageModel) -> list[Parameter]:
    made = []
    for part in found:
        tied = model.tied_bytes if part.role in ("embedding", "head") else 0
        made.append(Parameter(id=part.id, bytes=part.weight_bytes - tied))
        if part.cache_bytes:
            made.append(Parameter(id=f"layers.{part.layer}.cache", bytes=part.cache_bytes))
    for name, size in (("tied", model.tied_bytes), ("idle", model.idle_bytes)):
        if size:
            made.append(Parameter(id=name, bytes=size))
    return made
