"""Stand-ins for the compiled operators of torchvision, for machines where its extension does not load.

The wheels of torchvision are built against one build of torch, so beside another (a build for the CPU, say)
``import torchvision`` fails because ``torchvision::nms`` does not exist. Models can still be built and traced: tracing
needs the operators' schemas and shape rules, not their kernels. :func:`stand_in` defines the schemas of
torchvision's sources; the shape rules are torchvision's own, which it registers when it is imported afterwards.
"""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

_ROI = "Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width"
_BACK = "SymInt batch_size, SymInt channels, SymInt height, SymInt width"
_STEPS = (
    "SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, "
    "SymInt groups, SymInt offset_groups, bool use_mask"
)
_SCALED = "Tensor grad, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width"
_MAPPED = "Tensor grad, Tensor rois, Tensor mapping, float spatial_scale, SymInt pooled_height, SymInt pooled_width"
SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "box_iou_rotated(Tensor boxes1, Tensor boxes2) -> Tensor",
    f"roi_align({_ROI}, int sampling_ratio, bool aligned) -> Tensor",
    f"qroi_align({_ROI}, int sampling_ratio, bool aligned) -> Tensor",
    f"_roi_align_backward({_SCALED}, {_BACK}, int sampling_ratio, bool aligned) -> Tensor",
    f"ps_roi_align({_ROI}, int sampling_ratio) -> (Tensor, Tensor)",
    f"_ps_roi_align_backward({_MAPPED}, int sampling_ratio, {_BACK}) -> Tensor",
    f"roi_pool({_ROI}) -> (Tensor, Tensor)",
    f"_roi_pool_backward({_MAPPED.replace('mapping', 'argmax')}, {_BACK}) -> Tensor",
    f"ps_roi_pool({_ROI}) -> (Tensor, Tensor)",
    f"_ps_roi_pool_backward({_MAPPED}, {_BACK}) -> Tensor",
    f"deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, {_STEPS}) -> Tensor",
    "_deform_conv2d_backward(Tensor grad, Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, "
    f"{_STEPS}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    "_cuda_version() -> int",
)


@cache
def stand_in() -> None:
    """Import torchvision if it is there; where its extension does not load, define its operators' schemas first."""
    if importlib.util.find_spec("torchvision") is None:
        return
    import torch

    try:
        import torchvision  # noqa: F401
    except RuntimeError:
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]  # what stayed behind remembers that there are no operators
        _define(torch.library.Library("torchvision", "DEF"))


def _define(library: torch.library.Library) -> None:
    import torch

    _LIBRARIES.append(library)
    for schema in SCHEMAS:
        library.define(schema)
    library.impl("_cuda_version", lambda: -1, "CompositeExplicitAutograd")
    load = torch.ops.load_library
    torch.ops.load_library = lambda path: None if "torchvision" in str(path) else load(path)
    try:
        import torchvision  # noqa: F401  # registers its shape rules now that it finds the operators
    finally:
        torch.ops.load_library = load


_LIBRARIES: list[torch.library.Library] = []
"""A library's definitions last as long as the object."""
