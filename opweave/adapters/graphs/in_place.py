"""Operator kinds that real runtimes execute in place, over an input of the same size."""

from __future__ import annotations

from collections.abc import Set

_ACTIVATIONS = """
    activation celu clip elu gelu hardsigmoid hardswish hardtanh leaky_relu leakyrelu logsigmoid mish prelu relu relu6
    selu sigmoid silu softplus softsign swish tanh thresholdedrelu threshold_backward sigmoid_backward tanh_backward
"""
_ELEMENTWISE = """
    abs add ceil cos div divide erf exp floor log mul multiply neg negative not pow reciprocal round rsqrt sign sin sqrt
    sub subtract where
"""
_NORMALISING = "batch_norm batchnorm batchnormalization dropout rescaling normalization customscalelayer"

INPLACE_KINDS: Set[str] = frozenset((_ACTIVATIONS + _ELEMENTWISE + _NORMALISING).split())
"""Short names (see :func:`short_kind`) of elementwise operators, activations, residual additions, and normalising
layers in inference. Each output element depends on one element of each input."""


def short_kind(kind: str) -> str:
    """Strip namespace, overload and underscores from the framework's operator name, and convert it to lower case.

    Examples
    --------
    >>> short_kind("aten.relu_.default"), short_kind("Relu"), short_kind("TFOpLambda:__operators__.add")
    ('relu', 'relu', 'add')
    """
    name = kind.rsplit(":", 1)[-1].lower()
    for namespace in ("aten.", "aten::", "__operators__.", "math."):
        name = name.removeprefix(namespace)
    return name.split(".", 1)[0].strip("_")


def runs_in_place(kind: str, kinds: Set[str] = INPLACE_KINDS) -> bool:
    """Whether an operator of this kind may overwrite an input; ``kinds`` contains full or short names.

    Examples
    --------
    >>> runs_in_place("aten.add.Tensor"), runs_in_place("Conv")
    (True, False)
    """
    return kind in kinds or short_kind(kind) in kinds
