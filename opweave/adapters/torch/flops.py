"""Floating-point operations of one call of a PyTorch operator."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from opweave.adapters.graphs.element_flops import element_flops
from opweave.adapters.graphs.in_place import short_kind
from opweave.adapters.torch.twin import tensors_in

_WHOLE_NAMES = """
    addbmm addmv bilinear chain_matmul conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d dot
    einsum inner linalg_multi_dot linear matmul mv outer tensordot vdot
"""
_WHOLE = frozenset(_WHOLE_NAMES.split())
"""Operators that PyTorch builds from operators that it counts; their counts are the sums of these."""


class FlopCount:
    """Counts calls, and caches the counts of calls with the same operator and shapes.

    * Matrix products, convolutions and attention, forward and backward, are counted as in ``torch.utils.flop_counter``,
      two for a multiply-accumulate. Operators that are built from these (linear, conv2d, einsum) count as the sum of
      them.
    * Branches and loops count as ``torch.utils.flop_counter`` counts them: a branch as its dearest body, a loop once.
    * Recurrent layers count the matrix products of every step.
    * Everything else is counted by :func:`~opweave.adapters.graphs.element_flops.element_flops`.
    """

    def __init__(self) -> None:
        self._known: dict[object, float] = {}

    def count(
        self, func: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object], result: object
    ) -> float:
        """FLOPs of the call ``func(*args, **kwargs)`` with this ``result``; only shapes are read."""
        kind = str(func)
        key = (kind, _shapes(args), _shapes(tuple(kwargs.values())), _shapes(result))
        if key not in self._known:
            self._known[key] = _count(func, kind, args, kwargs, result)
        return self._known[key]


def _shapes(value: object) -> object:
    import torch

    if isinstance(value, torch.Tensor):
        return tuple(value.shape)
    if isinstance(value, list | tuple):
        return tuple(_shapes(item) for item in value)
    return value if isinstance(value, int | float | bool | str) else None


def _count(
    func: Callable[..., object], kind: str, args: Sequence[object], kwargs: Mapping[str, object], result: object
) -> float:
    import torch
    from torch.utils.flop_counter import FlopCounterMode, flop_registry

    packet, name = getattr(func, "overloadpacket", func), short_kind(kind)
    own = _OWN.get(name)
    if own is not None:
        return own(args)
    if packet in flop_registry:
        return float(flop_registry[packet](*args, **kwargs, out_val=result))
    if name in _WHOLE or isinstance(func, torch._ops.HigherOrderOperator):
        with FlopCounterMode(display=False) as counter:
            func(*args, **kwargs)
        return float(counter.get_total_flops())
    firsts = tensors_in(args)
    made = tensors_in(result) or firsts
    return element_flops(
        kind,
        firsts[0].numel() if firsts else 0.0,
        float(made[0].numel() if made and name[:8] != "foreach_" else sum(tensor.numel() for tensor in firsts)),
    )


def _attention(args: Sequence[object]) -> float:
    from torch.utils.flop_counter import sdpa_flop_count

    query, key, value = tensors_in(args)[:3]
    groups = query.shape[1] // key.shape[1] if query.dim() == 4 and key.shape[1] else 1
    if query.dim() != 4:  # batch and heads in any number of dimensions
        query, key, value = (tensor.reshape(-1, 1, *tensor.shape[-2:]) for tensor in (query, key, value))
    heads = (query.shape[0], key.shape[1] * groups)
    return float(sdpa_flop_count(query.shape, (*heads, *key.shape[2:]), (*heads, *value.shape[2:])))


def _attention_backward(args: Sequence[object]) -> float:
    from torch.utils.flop_counter import sdpa_backward_flop_count

    gradient, query, key, value = (tensor.shape for tensor in tensors_in(args)[:4])
    return float(sdpa_backward_flop_count(gradient, query, key, value))


def _recurrent(args: Sequence[object]) -> float:
    """Every weight matrix, once for each step and sequence, which are the two outer dimensions of the input."""
    tensors = tensors_in(args)
    steps = int(math.prod(tensors[0].shape[:2]))
    return 2.0 * steps * sum(int(tensor.numel()) for tensor in tensors_in(args[2:3]) if tensor.dim() == 2)


_OWN: dict[str, Callable[[Sequence[object]], float]] = {
    "scaled_dot_product_attention": _attention,
    "scaled_dot_product_flash_attention_for_cpu": _attention,
    "scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward,
    "gru": _recurrent,
    "lstm": _recurrent,
    "rnn_relu": _recurrent,
    "rnn_tanh": _recurrent,
}
