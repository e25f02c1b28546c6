"""Nodes that depend only on constants. They are computed once and stored as weights, as plans assume."""

from __future__ import annotations

import tempfile
from pathlib import Path

from opweave.adapters.onnx.nodes import NamedModel, save_model, with_nodes
from opweave.adapters.onnx.session import onnx_session_options, open_session, run_session


def without_constant_nodes(named: NamedModel) -> NamedModel:
    """Replace constant nodes by their values, computed by ONNX Runtime.

    Without optimisations, the runtime would compute them in every run, and their results would count as activations.

    Raises
    ------
    InvalidInputError, EngineError
        When onnxruntime is not installed, or when it cannot compute them.
    """
    from onnx import helper, numpy_helper

    computed = [node for node in named.constant if node.op_type != "Constant"]
    read = {name for node in named.nodes.values() for name in node.input}
    read |= {value.name for value in named.proto.graph.output}
    wanted = [name for node in computed for name in node.output if name in read]
    if not wanted:
        return named
    part = with_nodes(named.proto, named.constant)
    del part.graph.input[:], part.graph.output[:], part.graph.value_info[:]
    part.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in wanted)
    with tempfile.TemporaryDirectory(prefix="opweave-") as folder:
        values = run_session(
            open_session(save_model(part, Path(folder) / "constants.onnx"), onnx_session_options()), {}
        )
    constants = [node for node in named.constant if node.op_type == "Constant"]
    whole = with_nodes(named.proto, [*constants, *named.nodes.values()])
    whole.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in values.items())
    return NamedModel(whole, named.where, named.nodes, constants)
