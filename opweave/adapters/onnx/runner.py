"""Running the pieces of a model in order, each in its own session, and passing tensors between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from opweave.adapters.onnx.pieces import Piece
from opweave.adapters.onnx.session import Arrays, onnx_session_options, open_session, run_session
from opweave.problems.errors import InvalidInputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class PieceRunner:
    """Runs the pieces that :func:`~opweave.adapters.onnx.pieces.split_onnx` wrote.

    Parameters
    ----------
    pieces
        All pieces, in order.
    outputs
        Names of the model's outputs.
    threads
        Threads within an operator.

    Raises
    ------
    InvalidInputError
        When onnxruntime is not installed.
    EngineError
        When the runtime refuses a piece; with the runtime's message.
    """

    def __init__(self, pieces: Sequence[Piece], outputs: Sequence[str], *, threads: int = 1) -> None:
        self._pieces = tuple(pieces)
        self._outputs = tuple(outputs)
        self._sessions = [open_session(piece.path, onnx_session_options(threads=threads)) for piece in pieces]

    def run(self, feeds: Arrays) -> Arrays:
        """Run every piece once; a tensor is freed after the last piece that reads it.

        Raises
        ------
        InvalidInputError
            When an input is missing.
        EngineError
            When the runtime fails; with the runtime's message.
        """
        known: dict[str, NDArray[np.generic]] = dict(feeds)
        readers = Counter(name for piece in self._pieces for name in piece.inputs)
        for piece, session in zip(self._pieces, self._sessions, strict=True):
            for name in piece.inputs:
                if name not in known:
                    raise InvalidInputError(f"input {name!r} is missing; pass it")
            known |= run_session(session, {name: known[name] for name in piece.inputs}, piece.outputs)
            for name in piece.inputs:
                readers[name] -= 1
                if not readers[name] and name not in self._outputs:
                    del known[name]
        return {name: known[name] for name in self._outputs}
