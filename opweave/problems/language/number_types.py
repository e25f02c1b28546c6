"""The types in which weights and caches are stored, and how many bytes they take.

A quantised type packs a block of numbers into a fixed number of bytes. The types with blocks are those of ggml, whose
table (``GGML_QUANT_SIZES`` in the package ``gguf``, MIT) gives the sizes; plain types are also those of safetensors.
"""

from __future__ import annotations

from typing import NamedTuple

from opweave.problems.errors import InvalidInputError
from opweave.problems.words import did_you_mean


class NumberType(NamedTuple):
    """A storage type: blocks of ``numbers`` numbers in ``bytes`` bytes."""

    numbers: int
    bytes: int

    @property
    def bits(self) -> float:
        """Bits for one number."""
        return 8 * self.bytes / self.numbers


NUMBER_TYPES = {
    "f64": NumberType(1, 8),
    "f32": NumberType(1, 4),
    "f16": NumberType(1, 2),
    "bf16": NumberType(1, 2),
    "f8": NumberType(1, 1),
    "i64": NumberType(1, 8),
    "i32": NumberType(1, 4),
    "i16": NumberType(1, 2),
    "i8": NumberType(1, 1),
    "q1_0": NumberType(128, 18),
    "q4_0": NumberType(32, 18),
    "q4_1": NumberType(32, 20),
    "q5_0": NumberType(32, 22),
    "q5_1": NumberType(32, 24),
    "q8_0": NumberType(32, 34),
    "q8_1": NumberType(32, 40),
    "q2_k": NumberType(256, 84),
    "q3_k": NumberType(256, 110),
    "q4_k": NumberType(256, 144),
    "q5_k": NumberType(256, 176),
    "q6_k": NumberType(256, 210),
    "q8_k": NumberType(256, 292),
    "iq1_s": NumberType(256, 50),
    "iq1_m": NumberType(256, 56),
    "iq2_xxs": NumberType(256, 66),
    "iq2_xs": NumberType(256, 74),
    "iq2_s": NumberType(256, 82),
    "iq3_xxs": NumberType(256, 98),
    "iq3_s": NumberType(256, 110),
    "iq4_nl": NumberType(32, 18),
    "iq4_xs": NumberType(256, 136),
    "tq1_0": NumberType(256, 54),
    "tq2_0": NumberType(256, 66),
    "mxfp4": NumberType(32, 17),
    "nvfp4": NumberType(64, 36),
}
"""Sizes by name, in lower case as llama.cpp's options spell them."""


def number_type(name: str) -> NumberType:
    """Find a type by its name, in upper or lower case.

    Raises
    ------
    InvalidInputError
        For an unknown name.

    Examples
    --------
    >>> number_type("Q4_K").bits
    4.5
    """
    found = NUMBER_TYPES.get(name.lower())
    if found is None:
        raise InvalidInputError(
            f"{name!r:.60} is no type of numbers that opweave knows{did_you_mean(name, NUMBER_TYPES)}; "
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
