"""ONNX: reading graphs from files, writing reordered and split models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opweave.adapters.lazily import lazily

if TYPE_CHECKING:
    from opweave.adapters.onnx.optimizer import optimize, reorder_onnx
    from opweave.adapters.onnx.pieces import Piece, PieceRunner, split_onnx
    from opweave.adapters.onnx.read import from_onnx, onnx_runtime_problem
    from opweave.adapters.onnx.session import onnx_session_options

__all__ = [
    "Piece",
    "PieceRunner",
    "from_onnx",
    "onnx_runtime_problem",
    "onnx_session_options",
    "optimize",
    "reorder_onnx",
    "split_onnx",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "Piece": "pieces",
        "PieceRunner": "pieces",
        "from_onnx": "read",
        "onnx_runtime_problem": "read",
        "onnx_session_options": "session",
        "optimize": "optimizer",
        "reorder_onnx": "optimizer",
        "split_onnx": "pieces",
    },
)
