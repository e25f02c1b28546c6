"""How the operators of a model file read their inputs. Slicing needs this to cut convolutions and pooling."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from opweave.adapters.files import PathLike
from opweave.adapters.load import family_of, load
from opweave.problems.graph import OpGraph
from opweave.problems.limits import DEFAULT_LIMITS, Limits
from opweave.problems.slicing.geometry import Geometry

if TYPE_CHECKING:
    import keras
    import torch
    from onnx import ModelProto
    from torch.export import ExportedProgram


def geometry(
    model: PathLike | ModelProto | torch.nn.Module | ExportedProgram | keras.Model,
    *,
    graph: OpGraph | None = None,
    args: Sequence[object] = (),
    kwargs: Mapping[str, object] | None = None,
    dims: Mapping[str, int] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> dict[str, Geometry]:
    """Read the geometry of a model's operators, for ``Slicing(geometry=...)``.

    It covers two-dimensional convolutions (also grouped and depthwise ones) and pooling, global pooling, dense layers,
    and concatenation along the channels. Other operators either need no geometry (elementwise operators, which
    :class:`~opweave.problems.slicing.spec.Slicing` recognises by their kind) or stay whole: transposed and separable
    convolutions, separate padding and resizing, attention, reshaping. Dense layers on sequences can be cut into rows if
    the batch is 1.

    Parameters
    ----------
    model
        A model that :func:`~opweave.adapters.load.load` accepts. JSON contains no attributes of operators, so its
        result is empty.
    graph
        The graph that ``load`` made of the model, if available; the result uses its ids.
    args, kwargs, dims, limits
        As for ``load``.

    Returns
    -------
    dict
        Geometries by operator id, all of which fit the tensors' shapes. ONNX and PyTorch put channels first. Keras
        models put them where their layers say, mostly last; then the problem needs ``layout="channels_last"``.

    Raises
    ------
    InvalidInputError, LimitExceededError
        As ``load``.

    Examples
    --------
    >>> import onnx
    >>> net = onnx.parser.parse_model('''
    ...     <ir_version: 8, opset_import: ["": 17]>
    ...     net (float[1, 8, 12, 12] x) => (float[1, 8, 6, 6] y) {
    ...         y = MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (x)
    ...     }''')
    >>> geometry(net)
    {'MaxPool_0': Geometry(kernel=3, stride=2, padding=1, dilation=1, groups=1, channels='own', rows='window')}
    """
    family = family_of(model)
    if graph is None:
        graph = load(model, args=args, kwargs=kwargs, dims=dims, limits=limits)
    if family not in ("onnx", "torch", "keras"):
        return {}
    if family == "onnx":
        from opweave.adapters.onnx.geometry import onnx_geometry

        return onnx_geometry(model, graph, limits)
    if family == "keras":
        from opweave.adapters.keras.geometry import keras_geometry

        return keras_geometry(model, graph, dims, limits)
    from opweave.adapters.torch.geometry import torch_geometry
    from opweave.adapters.torch.program import prepare, read_program

    program = read_program(model, limits) if isinstance(model, str | os.PathLike) else model
    return torch_geometry(prepare(program, args, kwargs), graph)
