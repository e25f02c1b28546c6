"""Caps that keep hostile or mistaken input from exhausting the machine."""

from __future__ import annotations

from dataclasses import dataclass

MAX_BYTES = 2**53
"""Largest byte count. Every integer up to it is exact in a double, and engines compute with doubles."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Caps on what is read and built. Pass your own to a loader to raise or lower them.

    Attributes
    ----------
    file_bytes
        Largest file that is opened, in bytes.
    unpacked_bytes
        Largest size of a compressed file after unpacking, in bytes.
    nesting
        Deepest nesting of arrays and objects in a JSON file.
    operators, tensors, edges
        Largest model graph.
    id_characters
        Longest operator, tensor or device id.
    model_rows
        Most rows of a mathematical program that is built for an engine.
    run_seconds, run_bytes
        Time and memory of a run of a model that measures its shapes; see :mod:`opweave.adapters.onnx.measured`.

    Examples
    --------
    >>> Limits(operators=10).operators
    10
    """

    file_bytes: int = 2**31
    unpacked_bytes: int = 2**30
    nesting: int = 64
    operators: int = 1_000_000
    tensors: int = 2_000_000
    edges: int = 10_000_000
    id_characters: int = 1024
    model_rows: int = 3_000_000
    run_seconds: float = 120.0
    run_bytes: int = 2**35


DEFAULT_LIMITS = Limits()
