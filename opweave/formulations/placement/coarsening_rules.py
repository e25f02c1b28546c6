"""Fusion rules: the chains of operators that a runtime fuses, written in short kinds.

A rule is a tuple of patterns, one for each operator of a chain. A pattern is a short kind (:func:`short_kind`), several
short kinds joined by ``|``, or a shell-style wildcard such as ``"*"``. Rules of your own are tuples like these.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache

Rule = tuple[str, ...]

_SAME: Mapping[str, str] = {
    name: short
    for short, names in {
        "conv": (
            "convolution conv1d conv2d conv3d depthwiseconv1d depthwiseconv2d separableconv1d separableconv2d "
            "qlinearconv nhwcqlinearconv fusedconv nchwcconv mkldnnconvolution cudnnconvolution convdepthwise2d "
            "convdepthwise3d"
        ),
        "deconv": "convtranspose conv1dtranspose conv2dtranspose conv3dtranspose convtranspose1d convtranspose2d",
        "bn": (
            "batchnormalization batchnorm nativebatchnorm cudnnbatchnorm syncbatchnorm batchnorm2d batchnormv3 "
            "nativebatchnormlegit nativebatchnormlegitnotraining fusedbatchnorm fusedbatchnormv3"
        ),
        "ln": "layernormalization layernorm nativelayernorm skiplayernormalization rmsnorm rmsnormalization",
        "linear": "gemm dense addmm innerproduct fullyconnected",
        "matmul": "mm bmm batchmatmul batchmatmulv2 einsumdense",
        "add": "addv2 biasadd operatorsadd",
        "mul": "multiply operatorsmul",
        "sub": "subtract",
        "relu": "relu6 leakyrelu prelu threshold",
        "clip": "clamp hardtanh",
        "gelu": "fastgelu quickgelu",
        "silu": "swish",
        "hardswish": "hardswishactivation",
    }.items()
    for name in names.split()
}

ACTIVATION = "relu|clip|sigmoid|tanh|silu|gelu|hardswish|hardsigmoid|elu|selu|mish|softplus|activation"
"""Activations with one input, as one pattern."""

POINTWISE = f"add|mul|sub|div|neg|abs|exp|log|sqrt|rsqrt|pow|erf|square|{ACTIVATION}"
"""Operators that work element by element, as one pattern."""

BACKENDS: Mapping[str, tuple[Rule, ...]] = {
    "default": (
        ("conv", "bn"),
        ("conv", "bn", ACTIVATION),
        ("conv", "bn", "add"),
        ("conv", "bn", "add", ACTIVATION),
        ("conv", ACTIVATION),
        ("conv", "add"),
        ("conv", "add", ACTIVATION),
        ("bn", ACTIVATION),
        ("linear|matmul", "add"),
        ("linear|matmul", "add", ACTIVATION),
        ("linear|matmul", ACTIVATION),
        ("add", "ln"),
        ("add", ACTIVATION),
    ),
    "onnxruntime": (
        ("conv", "bn"),
        ("conv", ACTIVATION),
        ("conv", "bn", ACTIVATION),
        ("conv", "add", ACTIVATION),
        ("matmul", "add"),
        ("linear", ACTIVATION),
        ("matmul", "add", "gelu"),
        ("add", "gelu"),
        ("add", "ln"),
        ("add", "add", "ln"),
    ),
    "pointwise": (
        (POINTWISE, POINTWISE),
        (POINTWISE, POINTWISE, POINTWISE),
        (POINTWISE, POINTWISE, POINTWISE, POINTWISE),
        ("linear|matmul|conv", POINTWISE),
        ("linear|matmul|conv", POINTWISE, POINTWISE),
    ),
}
"""Rule sets by name: the fusions of the paper and most runtimes, of ONNX Runtime, and of element-wise compilers."""

_PREFIX = re.compile(r"^(torch\.ops\.|aten(\.|::)|prims?\.|tfoplambda:|com\.microsoft[.:]+|ai\.onnx[.:]+)+")
_OVERLOAD = re.compile(r"\.[^.]*$")


@cache
def short_kind(kind: str) -> str:
    """An operator's kind without framework-specific parts: lower-case letters and digits, with synonyms unified.

    Examples
    --------
    >>> [short_kind(kind) for kind in ("aten.conv2d.default", "Conv", "SeparableConv2D", "aten.relu_.default")]
    ['conv', 'conv', 'conv', 'relu']
    >>> short_kind("aten._native_batch_norm_legit_no_training.default"), short_kind("BatchNormalization")
    ('bn', 'bn')
    """
    lowered = kind.strip().lower()
    bare = _PREFIX.sub("", lowered)
    if bare != lowered and not bare.startswith("__"):
        bare = _OVERLOAD.sub("", bare)
    word = re.sub(r"[^a-z0-9]", "", bare)
    return _SAME.get(word, word)


@cache
def kind_matches(pattern: str, kind: str) -> bool:
    """Whether a short kind matches a pattern.

    Examples
    --------
    >>> kind_matches("relu|gelu", "gelu"), kind_matches("*", "topk"), kind_matches("conv*", "bn")
    (True, True, False)
    """
    return any(fnmatchcase(kind, part) for part in pattern.split("|"))


def longest_chain(rules: Sequence[Rule], kinds: Sequence[str]) -> tuple[int, bool]:
    """How many of the first kinds form a complete rule (0: none), and whether all of them begin a longer rule.

    Examples
    --------
    >>> longest_chain([("conv", "bn"), ("conv", "bn", "add", "relu")], ["conv", "bn", "add"])
    (2, True)
    """
    whole, more = 0, False
    for rule in rules:
        agreeing = 0
        for pattern, kind in zip(rule, kinds, strict=False):
            if not kind_matches(pattern, kind):
                break
            agreeing += 1
        if agreeing == len(rule):
            whole = max(whole, agreeing)
        elif agreeing == len(kinds):
            more = True
    return whole, more
