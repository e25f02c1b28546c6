"""A language model as data: layers of tensor groups with their bytes and operations, and the cache of each layer."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from opweave.problems.language.number_types import row_bytes
from opweave.problems.shown import Bare, brief
from opweave.problems.spec import SCHEMA_VERSION, Bytes, Count, Extent, Many, Operations, Spec
from opweave.problems.units import readable_bytes
from opweave.problems.words import counted

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
    flops: Operations = 0.0
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
    flops: Operations = 0.0
    state_bytes: Bytes = 0
    state_flops: Operations = 0.0

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

    schema_version: Literal[1] = SCHEMA_VERSION
    name: str
    architecture: str = ""
    layers: Annotated[Many[Layer], Field(min_length=1)]
    embedding: Weights
    head: Weights
    tied_bytes: Bytes = 0
    hidden_bytes: Bytes
    vocabulary: Count
    longest: Count | None = None
    idle_bytes: Bytes = 0

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
