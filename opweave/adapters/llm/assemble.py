"""From tensors, each with its layer and its role, to the description of a language model."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from opweave.problems.errors import InvalidInputError
from opweave.problems.language.model import Cache, LanguageModel, Layer, Role, Weights
from opweave.problems.limits import MAX_BYTES

Place = Role | Literal["norm", "idle"]
"""A role; ``norm`` for what normalises the input of a layer's second half, and ``idle`` for what no token needs."""

MAX_LAYERS = 10_000
"""More layers than any model has; a file that claims more is broken."""

MAX_NUMBER = 2**26
"""More than any width, count or length in a model; two of them multiplied still fit a count of bytes."""

STATE_BYTES = 4
"""Bytes of one number: llama.cpp keeps states in single precision, whatever the types of its caches."""

NO_CACHE = Cache(key_width=0, value_width=0)
"""What a layer without attention keeps of each token."""


class Recurrence(NamedTuple):
    """The shape of a recurrent layer, which keeps a state of fixed size where attention keeps a cache that grows.

    Attributes
    ----------
    channels
        Channels that have a state; llama.cpp's ``ssm.inner_size``.
    states
        Numbers of the state for each channel; 0 for a convolution alone.
    convolved
        Channels of the convolution in front: ``channels``, and with them the keys and queries (the B and C of Mamba 2).
    kernel
        Tokens that the convolution spans.
    flops
        Operations for each number of the state and token.
    """

    channels: int
    states: int
    convolved: int
    kernel: int
    flops: float

    def cache(self, beside: Cache) -> Cache:
        """The cache of a layer with this state, beside what its attention keeps.

        Examples
        --------
        Of Qwen3.5 9B, a linear layer keeps 32 heads of 128 by 128, and 3 tokens of 8,192 channels:

        >>> Recurrence(channels=4096, states=128, convolved=8192, kernel=4, flops=7.0).cache(NO_CACHE).state_bytes
        2195456
        """
        state = self.channels * self.states
        held = STATE_BYTES * (state + max(self.kernel - 1, 0) * self.convolved)
        return Cache(**{**dict(beside), "state_bytes": held, "state_flops": self.flops * state})


TABLE: dict[str, Any] = tomllib.loads(Path(__file__).with_name("families.toml").read_text("utf-8"))
"""What is known of families of language models and of the names of tensors."""


def home_of(name: str, form: str) -> tuple[int | None, Place]:
    """The layer of a tensor and what it is a part of, by its name in files of a form.

    Examples
    --------
    >>> names = ("attn_q.weight", "ffn_up_exps.weight", "ffn_gate_inp.weight", "ffn_norm.weight", "ffn_gate.weight")
    >>> [home_of(f"blk.3.{name}", "gguf")[1] for name in names]
    ['attention', 'experts', 'router', 'norm', 'feed_forward']
    >>> home_of("model.layers.3.mlp.experts.7.up_proj.weight", "safetensors")
    (3, 'experts')
    """
    table = TABLE["places"][form]
    inside = re.match(table["layer"], name, re.DOTALL)
    rows, rest = (table["outside"], name) if inside is None else (table["inside"], name[inside.end() :])
    place = next(place for place, pattern in rows if re.match(pattern, rest, re.DOTALL))
    return None if inside is None else int(inside[1]), place


class Held(NamedTuple):
    """A tensor: its layer (None outside the layers), what it is a part of, and its size."""

    layer: int | None
    place: Place
    shape: tuple[int, ...]
    bytes: int


@dataclass(frozen=True, slots=True)
class Frame:
    """What a model file says apart from its tensors.

    Attributes
    ----------
    name, architecture, hidden_bytes, vocabulary, longest
        As in :class:`~opweave.problems.language.model.LanguageModel`.
    caches
        One for each layer.
    experts, used
        Experts of a layer, and how many of them a token uses; 1 and 1 without experts.
    halves
        Whether a layer may be attention, or what is in its place, or a feed-forward part alone.
    """

    name: str
    architecture: str
    hidden_bytes: int
    vocabulary: int
    longest: int | None
    caches: tuple[Cache, ...]
    experts: int = 1
    used: int = 1
    halves: bool = False


def assemble(frame: Frame, tensors: Iterable[Held], where: str) -> LanguageModel:
    """Gather a model's tensors into its groups.

    A head without a matrix uses the table of the embedding.

    Parameters
    ----------
    frame
        The rest of the description.
    tensors
        All tensors of the model.
    where
        Name of the file in errors.

    Raises
    ------
    InvalidInputError
        When a layer lacks its attention or its feed-forward part.
    """
    inside: list[dict[str, list[Held]]] = [{} for _ in frame.caches]
    outside: dict[str, list[Held]] = {"embedding": [], "head": [], "idle": []}
    for tensor in tensors:
        if max(prod(tensor.shape), tensor.bytes) > MAX_BYTES // MAX_LAYERS:
            raise InvalidInputError(f"{where}: a tensor of {tensor.bytes:,} bytes is more than any model has")
        beyond = tensor.layer is not None and tensor.layer >= len(inside)
        if tensor.place == "idle" or beyond:
            outside["idle"].append(tensor)
        elif tensor.layer is None:
            outside[tensor.place].append(tensor)
        else:
            inside[tensor.layer].setdefault(tensor.place, []).append(tensor)
    table = max(outside["embedding"], key=lambda tensor: tensor.bytes, default=None)
    if table is None:
        raise InvalidInputError(f"{where}: the embedding of tokens is missing; is this a part of a split model?")
    head = outside["head"]
    tied = not any(len(tensor.shape) > 1 for tensor in head)
    layers = [_layer(number, groups, frame, where) for number, groups in enumerate(inside)]
    shared: dict[Layer, Layer] = {}
    return LanguageModel(
        name=frame.name,
        architecture=frame.architecture,
        layers=tuple(shared.setdefault(layer, layer) for layer in layers),
        embedding=_embedding(outside["embedding"], table),
        head=_weights("head", [*head, table] if tied else head),
        tied_bytes=table.bytes if tied else 0,
        hidden_bytes=frame.hidden_bytes,
        vocabulary=frame.vocabulary,
        longest=frame.longest,
        idle_bytes=sum(tensor.bytes for tensor in outside["idle"]),
    )


def _layer(number: int, groups: dict[str, list[Held]], frame: Frame, where: str) -> Layer:
    home = "router" if "experts" in groups else "feed_forward"
    groups.setdefault(home, []).extend(groups.pop("norm", []))
    both = ("attention", home)
    there = [role for role in both if any(len(tensor.shape) > 1 for tensor in groups.get(role, []))]
    if frame.halves and len(there) == 1:
        groups[there[0]] += groups.pop(next(role for role in both if role != there[0]), [])
    for role in () if frame.halves and there else both:
        if role not in there:
            raise InvalidInputError(
                f"{where}: layer {number} has no {role.replace('_', '-')} tensors; the file is incomplete or of a kind "
                "that opweave does not know"
            )
    made = []
    for role in get_args(Role):
        if role not in groups:
            continue
        weights = _weights(role, groups[role])
        if role == "experts":
            flops = weights.flops * frame.used / frame.experts
            weights = Weights(**{**dict(weights), "flops": flops, "pieces": frame.experts, "used": frame.used})
        made.append(weights)
    return Layer(groups=tuple(made), cache=frame.caches[number])


def _embedding(tensors: Sequence[Held], table: Held) -> Weights:
    whole = _weights("embedding", tensors)
    rows = max(table.shape[0], 1)
    return Weights(role="embedding", bytes=whole.bytes, elements=whole.elements, pieces=rows)


def _weights(role: Role, tensors: Sequence[Held]) -> Weights:
    sizes = [(prod(tensor.shape), len(tensor.shape) > 1) for tensor in tensors]
    return Weights(
        role=role,
        bytes=sum(tensor.bytes for tensor in tensors),
        elements=sum(size for size, _ in sizes),
        flops=2.0 * sum(size for size, matrix in sizes if matrix),
    )
