"""Operator kinds that real runtimes execute in place, over an input of the same size."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Set
from pathlib import Path

KINDS: Mapping[str, Mapping[str, str]] = tomllib.loads(Path(__file__).with_name("kinds.toml").read_text("utf-8"))
"""Short names of operator kinds, in tables."""

INPLACE_KINDS: Set[str] = frozenset(" ".join(KINDS["in_place"].values()).split())
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
