"""The types in which weights and caches are stored, and how many bytes they take.

A quantised type packs a block of numbers into a fixed number of bytes. The types with blocks are those of ggml, whose
table (``GGML_QUANT_SIZES`` in the package ``gguf``, MIT) gives the sizes; plain types are also those of safetensors.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from opweave.problems.errors import InvalidInputError
from opweave.problems.words import did_you_mean


class NumberType(NamedTuple):
    """A storage type: blocks of ``numbers`` numbers in ``bytes`` bytes."""

    numbers: int
    bytes: int


RUNTIMES: dict[str, Any] = tomllib.loads(Path(__file__).with_name("runtimes.toml").read_text("utf-8"))
"""What is known of runtimes: sizes of number types, reserves, and published speeds."""

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
        raise InvalidInputError(
            f"{name!r:.60} is no type of numbers that opweave knows{did_you_mean(name, (*NUMBER_TYPES, *MIXES))}; "
            f"it knows {', '.join(NUMBER_TYPES)}"
        )
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
        raise InvalidInputError(
            f"rows of {numbers:,} numbers cannot be stored as {name.lower()}, whose blocks have {kind.numbers}; take "
            "another type"
        )
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
