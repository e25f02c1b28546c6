"""What a language model is asked to do, and what each of its groups then holds, reads and computes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from opweave.problems.cluster import Cluster
from opweave.problems.costs import Costs, Efficiency
from opweave.problems.errors import InvalidInputError
from opweave.problems.graph import Operator, OpGraph, Parameter, Tensor
from opweave.problems.language.model import Cache, LanguageModel, Role, Weights
from opweave.problems.limits import MAX_BYTES
from opweave.problems.spec import Count, Spec

Phase = Literal["decode", "prefill"]

LOGIT_BYTES = 4
"""Bytes of one number of the output; runtimes compute it in single precision."""

PAD = 256
"""llama.cpp rounds the tokens of a sliding window's cache up to a multiple of this."""


class Workload(Spec):
    """One pass through the model.

    Attributes
    ----------
    phase
        ``"decode"``: one token for each sequence, at the end of its context. ``"prefill"``: ``batch`` tokens of one
        prompt that fills the context; operations and cache reads are those of the average pass.
    context
        Tokens that the cache of each sequence holds. (llama.cpp's ``-c`` is the sum over its sequences.)
    sequences
        Requests in flight; each has a cache.
    batch
        Tokens of a prompt that are computed at once; llama.cpp's ``-ub``.
    keys
        Type of the keys in the cache, such as ``q8_0``.
    values
        Type of the values in the cache, such as ``q8_0``.

    Examples
    --------
    >>> Workload(context=1000).tokens, Workload(phase="prefill", context=1000).passes
    (1, 2)
    """

    phase: Phase = "decode"
    context: Count = 4096
    sequences: Count = 1
    batch: Count = 512
    keys: str = "f16"
    values: str = "f16"

    @property
    def tokens(self) -> int:
        """Tokens that one pass computes."""
        return self.sequences if self.phase == "decode" else min(self.batch, self.context)

    @property
    def passes(self) -> int:
        """Passes until every sequence has one more token, or until the prompt is read."""
        return 1 if self.phase == "decode" else -(-self.context // self.tokens)

    def held_bytes(self, cache: Cache) -> int:
        """Bytes of a layer's cache for all sequences; a window is held with room for one batch, as llama.cpp does.

        The state of a recurrent layer is held once for each sequence.
        """
        tokens = self.context
        if cache.window is not None:
            tokens = min(tokens, -(-(cache.window + self.batch) // PAD) * PAD)
        return self.sequences * (tokens * cache.token_bytes(self.keys, self.values) + cache.state_bytes)

    def seen(self, cache: Cache) -> float:
        """Positions that one token of this pass attends to."""
        return cache.seen(self.context) if self.phase == "decode" else cache.mean_seen(self.context)

    def cache_read_bytes(self, cache: Cache) -> float:
        """Bytes of a layer's cache that one pass reads; a state is read and written back."""
        readers = self.sequences if self.phase == "decode" else 1
        return readers * (self.seen(cache) * cache.token_bytes(self.keys, self.values) + 2 * cache.state_bytes)


DECODE = Workload()
"""One token for one sequence with a context of 4,096."""


class Part(NamedTuple):
    """What one group holds and does in one pass.

    Attributes
    ----------
    id
        "embedding", "layers.3.attention", ..., "head".
    layer
        Number of its layer; None for the embedding and the head.
    role
        What it does.
    weight_bytes, cache_bytes
        What its device holds.
    flops, read_bytes
        Operations, and bytes of weights and cache that are read, in one pass.
    """

    id: str
    layer: int | None
    role: Role
    weight_bytes: int
    cache_bytes: int
    flops: float
    read_bytes: float

    @property
    def held_bytes(self) -> int:
        """Weights and cache together."""
        return self.weight_bytes + self.cache_bytes


def parts(model: LanguageModel, work: Workload) -> tuple[Part, ...]:
    """All groups of a model in the order in which they run, with what one pass asks of them.

    A prompt needs the head only for its last token.

    Raises
    ------
    InvalidInputError
        When the context is longer than the model was trained for, or its cache cannot be kept in the types asked for.
    """
    if model.longest is not None and work.context > model.longest:
        asked = f"{model.name}: a context of {work.context:,} tokens is requested"
        raise InvalidInputError(f"{asked}, but the model was trained for at most {model.longest:,}; ask for less")
    caches = sum(work.held_bytes(layer.cache) for layer in model.layers)
    passed = work.tokens * max(model.hidden_bytes, LOGIT_BYTES * model.vocabulary)
    if max(caches, passed) > MAX_BYTES:
        raise InvalidInputError(
            f"{model.name}: {work.sequences:,} sequences of {work.context:,} tokens need {caches:,} bytes of caches, "
            "more than any machine has; ask for less"
        )
    found = [_plain("embedding", model.embedding, work.tokens)]
    for number, layer in enumerate(model.layers):
        for group in layer.groups:
            part = _plain(f"layers.{number}.{group.role}", group, work.tokens)._replace(layer=number)
            if group.role == layer.first:
                cache = layer.cache
                part = part._replace(
                    cache_bytes=work.held_bytes(cache),
                    flops=part.flops + work.tokens * (work.seen(cache) * cache.flops + cache.state_flops),
                    read_bytes=part.read_bytes + work.cache_read_bytes(cache),
                )
            found.append(part)
    return (*found, _plain("head", model.head, work.sequences if work.phase == "decode" else 1))


def _plain(name: str, weights: Weights, tokens: int) -> Part:
    return Part(name, None, weights.role, weights.bytes, 0, tokens * weights.flops, float(weights.read_bytes(tokens)))


TOKEN_BYTES = 4
"""A token's number, and the weight of one expert for one token."""


def language_graph(model: LanguageModel, work: Workload) -> OpGraph:
    """The graph of one pass: an operator for each group, with its weights and its cache as parameters.

    The ids are those of :func:`~opweave.problems.language.workload.parts`. A cache is a parameter of its own,
    "layers.3.cache", because it stays where it is as weights do. A tied matrix is one parameter, "tied", of the
    embedding and the head; no operator reads "idle", the tensors that are never read. Experts and the feed-forward part
    beside them read the same activation, and the last of them writes the layer's result.

    Kinds are roles. The graph does not say how many of the experts are read; costs come from
    :func:`~opweave.problems.language.workload.language_costs`, which knows.

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
    results = work.sequences if work.phase == "decode" else 1
    tensors = [Tensor(id="tokens", bytes=TOKEN_BYTES * work.tokens)]
    operators, held = [], dict[str, int]()
    entering, latest = "tokens", "tokens"  # what the layer's groups read, and what was written last
    for index, part in enumerate(found):
        tied = model.tied_bytes if part.role in ("embedding", "head") else 0
        own = {part.id: part.weight_bytes - tied}
        if part.cache_bytes:
            own[f"layers.{part.layer}.cache"] = part.cache_bytes
        held |= own
        size = model.hidden_bytes * work.tokens
        if part.role == "router":
            size = TOKEN_BYTES * model.groups[index + 1].used * 2 * work.tokens
        elif part.role == "head":
            size = LOGIT_BYTES * model.vocabulary * results
        tensors.append(Tensor(id=f"{part.id}.out", bytes=size))
        operators.append(
            Operator(
                id=part.id,
                kind="Embedding" if part.role == "embedding" else part.role,  # a kind that picks rows
                inputs=tuple(dict.fromkeys((entering, latest))),
                outputs=(f"{part.id}.out",),
                parameters=(*own, "tied") if tied else tuple(own),
                flops=part.flops,
                module=part.id,
            )
        )
        latest = f"{part.id}.out"
        if part.role in ("embedding", "attention", "head") or part.layer != found[index + 1].layer:
            entering = latest
    held |= {name: size for name, size in (("tied", model.tied_bytes), ("idle", model.idle_bytes)) if size}
    return OpGraph(
        name=model.name,
        operators=tuple(operators),
        tensors=tuple(tensors),
        parameters=tuple(Parameter(id=name, bytes=size) for name, size in held.items()),
        outputs=(latest,),
    )


def language_costs(
    model: LanguageModel, work: Workload, cluster: Cluster, efficiency: Mapping[str, float | Efficiency] | None = None
) -> Costs:
    """Estimate seconds for each group on each device: the slower of arithmetic and memory traffic, plus the launch.

    Of experts and embeddings, only what the tokens of the pass use is read. See
    :meth:`~opweave.problems.costs.Costs.roofline` for the formula.

    Parameters
    ----------
    model, work, cluster
        The model, what it is asked to do, and the devices.
    efficiency
        Efficiency by role: "attention", "experts", ...; 1 where none is given.

    Returns
    -------
    Costs
        Rows are the operators of :func:`~opweave.problems.language.workload.language_graph`.

    Raises
    ------
    InvalidInputError
        For a device without ``flops_per_second`` or ``memory_bandwidth``.
    """
    read = {part.id: part.read_bytes for part in parts(model, work)}
    return Costs.roofline(language_graph(model, work), cluster, efficiency=efficiency, parameters_read=read)
