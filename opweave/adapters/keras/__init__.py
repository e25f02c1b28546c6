"""Keras models as graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opweave.adapters.lazily import lazily

if TYPE_CHECKING:
    from opweave.adapters.keras.read import from_keras

__all__ = [
    "from_keras",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "from_keras": "read",
    },
)
