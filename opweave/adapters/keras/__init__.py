"""Keras models as graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opweave.adapters.lazily import lazily

if TYPE_CHECKING:
    from opweave.adapters.keras.read import from_keras as from_keras

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
