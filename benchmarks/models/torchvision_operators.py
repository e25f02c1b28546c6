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

from benchmarks.tables import data

if TYPE_CHECKING:
    import torch


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
    for schema in data("zoo")["schemas"]:
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
