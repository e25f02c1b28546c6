"""From tensors, each with its layer and its role, to the description of a language model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import get_args

from opweave.adapters.llm.families import MAX_LAYERS, Config, Held
from opweave.problems.errors import InvalidInputError
from opweave.problems.language.model import LanguageModel, Layer, Role, Weights
from opweave.problems.limits import MAX_BYTES

Groups = dict[str, list[Held]]


def assemble(config: Config, tensors: Iterable[Held], name: str) -> LanguageModel:
    """Gather a model's tensors into its groups.

    A head without a matrix uses the table of the embedding.

    Parameters
    ----------
    config
        The rest of the description.
    tensors
        All tensors of the model.
    name
        The model's name for people.

    Raises
    ------
    InvalidInputError
        When a layer lacks its attention or its feed-forward part.
    """
    whole = config.whole
    inside: list[Groups] = [{} for _ in config.each]
    outside: Groups = {"embedding": [], "head": [], "idle": []}
    for tensor in tensors:
        if max(prod(tensor.shape), tensor.bytes) > MAX_BYTES // MAX_LAYERS:
            raise InvalidInputError(f"{config.where}: a tensor of {tensor.bytes:,} bytes is more than any model has")
        beyond = tensor.layer is not None and tensor.layer >= len(inside)
        if tensor.place == "idle" or beyond:
            outside["idle"].append(tensor)
        elif tensor.layer is None:
            outside[tensor.place].append(tensor)
        else:
            inside[tensor.layer].setdefault(tensor.place, []).append(tensor)
    rows = (whole.number("vocabulary"),)  # the smaller one, if further tables of tokens stand beside it
    table = min(outside["embedding"], key=lambda each: (each.shape[:1] != rows, each.bytes), default=None)
    if table is None:
        raise InvalidInputError(f"{config.where}: the embedding of tokens is missing; is this a part of a split model?")
    head = outside["head"]
    tied = not any(len(tensor.shape) > 1 for tensor in head)
    experts = config.experts()
    layers = [_layer(config, number, groups, experts) for number, groups in enumerate(inside)]
    shared: dict[Layer, Layer] = {}
    return LanguageModel(
        name=name,
        architecture=config.kind,
        layers=tuple(shared.setdefault(layer, layer) for layer in layers),
        embedding=_weights("embedding", outside["embedding"], pieces=max(table.shape[0], 1)),
        head=_weights("head", [*head, table] if tied else head),
        tied_bytes=table.bytes if tied else 0,
        hidden_bytes=whole.number("number_bytes") * whole.number("hidden"),
        vocabulary=whole.number("vocabulary"),
        longest=whole.number("longest") or None,
        idle_bytes=sum(tensor.bytes for tensor in outside["idle"]),
    )


def _layer(config: Config, number: int, groups: Groups, experts: tuple[int, int]) -> Layer:
    home = "router" if "experts" in groups else "feed_forward"
    groups.setdefault(home, []).extend(groups.pop("norm", []))
    both = ("attention", home)
    there = [role for role in both if any(len(tensor.shape) > 1 for tensor in groups.get(role, []))]
    halves = bool(config.whole["halves"])
    if halves and len(there) == 1:
        groups[there[0]] += groups.pop(next(role for role in both if role != there[0]), [])
    for role in () if halves and there else both:
        if role not in there:
            raise InvalidInputError(
                f"{config.where}: layer {number} has no {role.replace('_', '-')} tensors; the file is incomplete or of "
                "a kind that opweave does not know"
            )
    in_order: list[Role] = [role for role in get_args(Role) if role in groups]
    made = (_weights(role, groups[role], *(experts if role == "experts" else ())) for role in in_order)
    return Layer(groups=tuple(made), cache=config.each[number].cache())


def _weights(role: Role, tensors: Sequence[Held], pieces: int = 1, used: int = 1) -> Weights:
    """A group of equal pieces, of which a token uses some: experts, or rows of a table."""
    sizes = [(prod(tensor.shape), len(tensor.shape) > 1) for tensor in tensors]
    multiplied = sum(size for size, matrix in sizes if matrix and role != "embedding")
    return Weights(
        role=role,
        bytes=sum(tensor.bytes for tensor in tensors),
        elements=sum(size for size, _ in sizes),
        flops=2.0 * multiplied * used / pieces,
        pieces=pieces,
        used=used,
    )
