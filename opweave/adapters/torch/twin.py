"""A module as if all of it were in main memory: the same structure, made of fake tensors on the CPU.

Models built on the meta device often hold a few tensors elsewhere, and their code asks which device it is on. On the
twin, every tensor says that it is on the CPU, and small constants even have values, so a trace takes the steps of a
real run. Nothing is allocated.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

M = TypeVar("M", bound="torch.nn.Module")


def tensors_in(value: object) -> list[torch.Tensor]:
    """All tensors in nested arguments, in order."""
    import torch
    from torch.utils._pytree import tree_leaves

    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def fake_mode() -> FakeTensorMode:
    """A mode under which fake tensors take the shapes of a run; numbers read from them stay open symbols."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    return FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv())


def twin(module: M) -> M:
    """Copy a module, with fake tensors for its own under the current mode; tensors that share memory still do."""
    import torch

    first: dict[int, torch.Tensor] = {}
    memo: dict[int, object] = {}
    for parameter in module.parameters():
        memo[id(parameter)] = torch.nn.Parameter(_in_place_of(parameter, first), parameter.requires_grad)
    for tensor in (*module.buffers(), *_loose(module)):
        if id(tensor) not in memo:
            memo[id(tensor)] = _in_place_of(tensor, first)
    return copy.deepcopy(module, memo)


def faked(inputs: Any) -> Any:
    """Nested inputs with fake tensors in place of tensors."""
    import torch
    from torch.utils._pytree import tree_map_only

    return tree_map_only(torch.Tensor, _like, inputs)


def on_meta(tensors: Iterable[torch.Tensor]) -> bool:
    """Whether any of these tensors is on the meta device."""
    return any(tensor.device.type == "meta" for tensor in tensors)


def has_values(tensor: torch.Tensor) -> bool:
    """Whether a tensor holds values, unlike those on the meta device and fake ones."""
    from torch._subclasses.fake_tensor import FakeTensor

    return tensor.device.type != "meta" and not isinstance(tensor, FakeTensor)


def plain_outputs(value: object) -> object:
    """Replace what ``torch.export`` cannot return, such as a cache of keys and values, by the tensors inside it.

    Objects become mappings from the names of their attributes to those of their values that hold tensors.
    """
    return _opened(value, frozenset())


def _opened(value: object, above: frozenset[int]) -> object:
    import torch
    from torch.utils._pytree import tree_map

    known = (torch.Tensor, int, float, str, torch.SymInt, torch.SymFloat, torch.SymBool, type(None))

    def opened(leaf: object) -> object:
        if isinstance(leaf, known):
            return leaf
        if id(leaf) in above or isinstance(leaf, torch.nn.Module | type):
            return None
        inner: object = dict(vars(leaf)) if hasattr(leaf, "__dict__") else None
        if isinstance(leaf, dict):
            inner = dict(leaf)
        elif isinstance(leaf, list | tuple):
            inner = list(leaf)
        parts = _opened(inner, above | {id(leaf)})
        kept = {name: part for name, part in parts.items() if tensors_in(part)} if isinstance(parts, dict) else parts
        return kept if tensors_in(kept) else None

    return tree_map(opened, value)


def _loose(module: torch.nn.Module) -> list[torch.Tensor]:
    """Tensors that modules hold as plain attributes, or in lists and mappings."""
    return [tensor for part in module.modules() for tensor in tensors_in(dict(vars(part)))]


def _in_place_of(tensor: torch.Tensor, first: dict[int, torch.Tensor]) -> torch.Tensor:
    """A fake tensor, a view of an earlier one where the real ones share a storage."""
    import torch

    if tensor.layout != torch.strided:
        return _like(tensor)
    held = first.setdefault(int(tensor.untyped_storage()._cdata), made := _like(tensor))
    if (
        held is made
        or held.dtype != tensor.dtype
        or held.untyped_storage().nbytes() != tensor.untyped_storage().nbytes()
    ):
        return made
    return torch.as_strided(held, tuple(tensor.shape), tensor.stride(), tensor.storage_offset())


def _like(tensor: torch.Tensor) -> torch.Tensor:
    import torch

    return torch.empty_strided(tuple(tensor.shape), tensor.stride(), dtype=tensor.dtype, device="cpu")
