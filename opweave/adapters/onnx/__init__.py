"""ONNX: reading graphs from files, writing reordered and split models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opweave.adapters.lazily import lazily

if TYPE_CHECKING:
    from opweave.adapters.onnx.optimizer import optimize as optimize, reorder_onnx as reorder_onnx
    from opweave.adapters.onnx.pieces import Piece as Piece, PieceRunner as PieceRunner, split_onnx as split_onnx
    from opweave.adapters.onnx.read import from_onnx as from_onnx, onnx_runtime_problem as onnx_runtime_problem
    from opweave.adapters.onnx.session import onnx_session_options as onnx_session_options

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
