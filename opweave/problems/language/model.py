"""A language model as data: layers of tensor groups with their bytes and operations, and the cache of each layer."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from opweave.problems.errors import InvalidInputError
from opweave.problems.shown import Bare, brief
from opweave.problems.spec import Bytes, Count, Extent, Many, Operations, Spec, preset
from opweave.problems.units import readable_bytes
from opweave.problems.words import counted, instead_of


class NumberType(NamedTuple):
    """A type in which weights and caches are stored: blocks of ``numbers`` numbers in ``bytes`` bytes.

    The types with blocks are those of ggml, whose table (``GGML_QUANT_SIZES`` in the package ``gguf``, MIT) gives the
    sizes; plain types are also those of safetensors.
    """

    numbers: int
    bytes: int


RUNTIMES: dict[str, Any] = tomllib.loads(Path(__file__).with_name("runtimes.toml").read_text("utf-8"))
"""What is known of runtimes: sizes of number types and of files, reserves, and what devices reach."""

NUMBER_TYPES = {name: NumberType(*sizes) for name, sizes in RUNTIMES["number_types"].items()}
"""Sizes by name, in lower case as llama.cpp's options spell them."""


class Mix(NamedTuple):
    """The types of a file: of the table of tokens, of the head, and bits for each number of all other matrices."""

    table: str
    head: str
    bits: float


MIXES = {name: Mix(*row) for name, row in RUNTIMES["mixes"].items()}
"""Files of llama.cpp by the names in which people have them, such as "q4_k_m"."""


def number_type(name: str) -> NumberType:
    """Find a type by its name, in upper or lower case.

    Raises
    ------
    InvalidInputError
        For an unknown name.

    Examples
    --------
    >>> number_type("Q4_K")
    NumberType(numbers=256, bytes=144)
    """
    found = NUMBER_TYPES.get(name.lower())
    if found is None:
        near = instead_of(name, (*NUMBER_TYPES, *MIXES), "there are")
        raise InvalidInputError(f"{name!r:.60} is not a number type that opweave knows{near}")
    return found


def row_bytes(numbers: int, name: str) -> int:
    """Bytes of one row of numbers, which a quantised type packs block by block.

    Raises
    ------
    InvalidInputError
        When the blocks do not divide the row; no runtime stores such rows in that type.

    Examples
    --------
    >>> row_bytes(1024, "f16"), row_bytes(1024, "q8_0")
    (2048, 1088)
    """
    kind = number_type(name)
    if numbers % kind.numbers:
        why = f"rows of {numbers:,} numbers cannot be stored as {name.lower()}, whose blocks have {kind.numbers}"
        raise InvalidInputError(f"{why}; take another type")
    return numbers // kind.numbers * kind.bytes


def stored_bytes(numbers: int, name: str) -> int:
    """Bytes of some numbers in whole blocks, the last one possibly not full.

    Raises
    ------
    InvalidInputError
        For an unknown name.

    Examples
    --------
    >>> stored_bytes(1000, "q8_0")
    1088
    """
    kind = number_type(name)
    return -(-numbers // kind.numbers) * kind.bytes


Role = Literal["embedding", "attention", "router", "experts", "feed_forward", "head"]
"""What a group of tensors does. ``feed_forward`` beside ``experts`` means the experts that every token uses."""


class Weights(Spec):
    """The tensors of one group, which one device holds together.

    Attributes
    ----------
    role
        What the group does.
    bytes
        As they are stored, quantised or not.
    elements
        How many numbers they are.
    flops
        Operations for one token; a multiply-accumulate counts as two.
    pieces, used
        Equal pieces of which each token uses some: experts, rows of an embedding. Other groups are one piece.

    Examples
    --------
    >>> experts = Weights(role="experts", bytes=800, elements=1600, flops=800.0, pieces=8, used=2)
    >>> experts.read_bytes(1), experts.read_bytes(2)
    (200.0, 350.0)
    """

    role: Role
    bytes: Bytes
    elements: Extent
    flops: Operations = preset(0.0)
    pieces: Count = 1
    used: Count = 1

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.used > self.pieces:
            raise ValueError(f"{self.used:,} of {self.pieces:,} pieces cannot be used; check the number of experts")
        return self

    def read_bytes(self, tokens: int) -> float:
        """Bytes of weights read for some tokens at once, where each token uses its own pieces, evenly at random."""
        return self.bytes * (1.0 - (1.0 - self.used / self.pieces) ** tokens)


class Cache(Spec):
    """What a layer remembers: of each token, if it has attention, and as a state of fixed size, if it is recurrent.

    Attributes
    ----------
    key_width, value_width
        Numbers for one token: heads times their width, for heads that are kept. Latent attention keeps one vector for
        all heads, and no values (width 0) where they are a part of the keys.
    window
        Tokens back that attention sees; None for all.
    flops
        Operations for one token and one position that it attends to.
    state_bytes, state_flops
        The state of a recurrent layer for one sequence, however long it is, and the operations that one token's change
        of it takes. Linear attention, state spaces and convolutions over tokens keep such a state.

    Examples
    --------
    >>> Cache(key_width=1024, value_width=1024, flops=16384.0).token_bytes("f16", "q8_0")
    3136
    """

    key_width: Extent
    value_width: Extent
    window: Count | None = None
    flops: Operations = preset(0.0)
    state_bytes: Bytes = preset(0)
    state_flops: Operations = preset(0.0)

    def token_bytes(self, keys: str = "f16", values: str = "f16") -> int:
        """Bytes that one token takes, with keys and values in these types."""
        return row_bytes(self.key_width, keys) + row_bytes(self.value_width, values)

    def seen(self, context: int) -> int:
        """Positions that a token at the end of a context attends to."""
        return context if self.window is None else min(context, self.window)

    def mean_seen(self, context: int) -> float:
        """Positions that the tokens of a prompt attend to, on average."""
        width = self.seen(context)
        return (width * (width + 1) / 2 + (context - width) * width) / context


class Layer(Spec):
    """One layer: its groups in the order in which they run, attention first, and its cache.

    Attributes
    ----------
    groups
        ``attention``, or what is there in its place, and then ``feed_forward``, or ``router`` and ``experts`` and
        possibly ``feed_forward``. A layer may lack either half.
    cache
        What its first group remembers.
    """

    groups: Annotated[Many[Weights], Field(min_length=1)]
    cache: Cache

    @model_validator(mode="after")
    def _check(self) -> Self:
        roles = [group.role for group in self.groups]
        order: list[Role] = ["attention", "router", "experts", "feed_forward"]
        if roles != [role for role in order if role in roles]:
            raise ValueError(f"the groups of a layer are {', '.join(roles)}; they must be some of {', '.join(order)}")
        return self

    @cached_property
    def bytes(self) -> int:
        """Bytes of all weights."""
        return sum(group.bytes for group in self.groups)

    @property
    def first(self) -> Role:
        """The role of the group that runs first; the layer's cache is where it is."""
        return self.groups[0].role

    def group(self, role: Role) -> Weights | None:
        """The group of a role; None if the layer has none."""
        return next((group for group in self.groups if group.role == role), None)


class LanguageModel(Spec):
    """A decoder of layers between an embedding and a head.

    Read it from a file with ``opweave.llm.read``.

    Attributes
    ----------
    name, architecture
        For people: "Meta Llama 3 70B", "llama".
    layers
        In order; equal layers are equal objects.
    embedding, head
        The groups before and after the layers. The head includes the final norm.
    tied_bytes
        Bytes of the embedding that are the head's matrix too. A device that holds both holds them once.
    hidden_bytes
        Bytes of the activation that passes from group to group, for one token.
    vocabulary
        Number of tokens known.
    longest
        Tokens of context for which the model was trained; None if unknown.
    idle_bytes
        Bytes of tensors in the file that these groups never read, such as a predictor of further tokens.

    Examples
    --------
    >>> attention = Weights(role="attention", bytes=8, elements=4, flops=8.0)
    >>> mlp = Weights(role="feed_forward", bytes=24, elements=12, flops=24.0)
    >>> layer = Layer(groups=[attention, mlp], cache=Cache(key_width=2, value_width=2))
    >>> table = Weights(role="embedding", bytes=64, elements=32, pieces=16)
    >>> head = Weights(role="head", bytes=68, elements=34, flops=64.0)
    >>> model = LanguageModel(
    ...     name="tiny", layers=[layer] * 3, embedding=table, head=head, tied_bytes=64, hidden_bytes=4, vocabulary=16
    ... )
    >>> model.parameter_bytes, model.cache_bytes(100)
    (164, 2400)
    """

    schema_version: Literal[1] = 1
    name: str
    architecture: str = ""
    layers: Annotated[Many[Layer], Field(min_length=1)]
    embedding: Weights
    head: Weights
    tied_bytes: Bytes = preset(0)
    hidden_bytes: Bytes
    vocabulary: Count
    longest: Count | None = None
    idle_bytes: Bytes = preset(0)

    @model_validator(mode="after")
    def _check(self) -> Self:
        for what, group, role in (("embedding", self.embedding, "embedding"), ("head", self.head, "head")):
            if group.role != role:
                raise ValueError(f"the {what} has role {group.role!r}; it must be {role!r}")
        if self.tied_bytes > min(self.embedding.bytes, self.head.bytes):
            raise ValueError(f"tied_bytes is {self.tied_bytes:,}, more than the embedding or the head has")
        return self

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        yield None, Bare(brief(self.name))
        yield None, Bare(counted(len(self.layers), "layer"))
        yield None, Bare(f"{self.elements / 1e9:.3g} billion parameters in {readable_bytes(self.parameter_bytes)}")

    @cached_property
    def groups(self) -> tuple[Weights, ...]:
        """All groups in the order in which they run."""
        return (self.embedding, *(group for layer in self.layers for group in layer.groups), self.head)

    @cached_property
    def parameter_bytes(self) -> int:
        """Bytes of all tensors of the file, each counted once."""
        return sum(group.bytes for group in self.groups) - self.tied_bytes + self.idle_bytes

    @cached_property
    def elements(self) -> int:
        """Numbers in the embedding, the layers and the head; a tied matrix counts once."""
        tied = self.embedding.elements * self.tied_bytes // max(self.embedding.bytes, 1)
        return sum(group.elements for group in self.groups) - tied

    def cache_bytes(self, context: int, keys: str = "f16", values: str = "f16") -> int:
        """Bytes of all caches for one sequence of ``context`` tokens; a window is held as far as it is seen."""
        caches = [layer.cache for layer in self.layers]
        return sum(each.seen(context) * each.token_bytes(keys, values) + each.state_bytes for each in caches)
