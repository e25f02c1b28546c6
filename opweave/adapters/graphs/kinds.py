"""Operator kinds as data: which are views, which run in place, what they compute, and how they read their inputs.

``kinds.toml`` beside this module has short names for all frameworks; every framework has such a file of its own. What
is in no table only moves data and counts no operation. The count of a real kernel depends on how it approximates
``exp`` or ``tanh``. The numbers here count the operations of the textbook formula, each elementary function once. All
of this is small compared with convolutions and matrix products, but it distinguishes an elementwise operator from a
view. For that reason, overwriting existing memory (``copy_``, ``fill_``) counts one operation per element.
"""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from math import prod
from pathlib import Path
from types import CodeType
from typing import Any

Shape = tuple[int, ...]

KINDS: Mapping[str, Mapping[str, str]] = tomllib.loads(Path(__file__).with_name("kinds.toml").read_text("utf-8"))
"""Short names of operator kinds, in tables."""

INPLACE_KINDS: Set[str] = frozenset(" ".join(KINDS["in_place"].values()).split())
"""Short names (see :func:`short_kind`) of elementwise operators, activations, residual additions, and normalising
layers in inference. Each output element depends on one element of each input."""

PER_OUTPUT = {name: float(count) for count, names in KINDS["per_output"].items() for name in names.split()}
"""Operations per output element by short name."""

PER_INPUT = frozenset(KINDS["per_input"]["1"].split())
"""Short names of reductions: one operation per element of their first input."""


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


def element_flops(kind: str, inputs: float, outputs: float) -> float:
    """Count the operations of an operator that is not a matrix product.

    Parameters
    ----------
    kind
        The operator kind as its framework names it.
    inputs, outputs
        Number of elements of its first input, and of its first output.

    Examples
    --------
    >>> element_flops("aten.relu_.default", 10, 10), element_flops("Softmax", 4, 4), element_flops("ReduceMean", 8, 1)
    (10.0, 20.0, 8.0)
    >>> element_flops("Transpose", 8, 8)
    0.0
    """
    name = short_kind(kind)
    if name in PER_INPUT:
        return float(inputs)
    if name in PER_OUTPUT:
        return PER_OUTPUT[name] * outputs
    return float(outputs) if name in INPLACE_KINDS and name != "dropout" else 0.0


class FrameworkKinds:
    """The operator kinds of a framework.

    Parameters
    ----------
    reader
        The file of its reader, which has the table ``kinds.toml`` beside it.

    Attributes
    ----------
    table
        All of it.
    common
        Short names by kind, where they are not the kind itself.
    geometry
        How kinds read their inputs, in the words of :func:`~opweave.adapters.graphs.geometry.geometry_of`.
    """

    def __init__(self, reader: str) -> None:
        self.table: dict[str, Any] = tomllib.loads(Path(reader).with_name("kinds.toml").read_text("utf-8"))
        self.common = dict(pair.split("=") for pair in self.table.get("common", "").split())
        self.geometry, self._flops = dict[str, str](), dict[str, CodeType]()
        for word, kinds in self.table.get("geometry", {}).items():
            self.geometry |= dict.fromkeys(kinds.split(), word)
        for rule, kinds in self.table.get("flops", {}).items():
            self._flops |= dict.fromkeys(kinds.split(), compile(rule, reader, "eval"))

    def names(self, word: str) -> frozenset[str]:
        """A list of kinds."""
        return frozenset(self.table[word].split())

    def flops(self, kind: str, inputs: Sequence[Shape], output: Shape, about: Mapping[str, Any] | None = None) -> float:
        """Count the floating-point operations of an operator, two for a multiply-accumulate.

        Parameters
        ----------
        kind
            Its kind. Those without a rule are counted by :func:`element_flops`.
        inputs
            Shapes of its inputs by position; () also for omitted inputs.
        output
            Shape of its first output.
        about
            What rules call by name; 0 for what is missing. An ``activation`` counts one more per element.

        Returns
        -------
        float
            0 if an input or attribute that the rule needs is missing or makes no sense, as in a broken file.
        """
        rule, made = self._flops.get(kind), prod(output)
        if rule is None:
            return element_flops(self.common.get(kind, kind), prod(inputs[0]) if inputs else 0, made)
        scope = defaultdict[str, Any](int, about or {})
        scope |= {**_FUNCTIONS, "x": inputs, "y": output, "made": made}
        try:  # the table's own text, never a file's
            return float(eval(rule, {"__builtins__": {}}, scope)) + (made if scope["activation"] else 0)
        except (ArithmeticError, AttributeError, IndexError, TypeError, ValueError):
            return 0.0


def _product(inputs: Sequence[Shape], output: Shape) -> float:
    """A matrix product; the summed dimension is what is left of a matrix of the first factor without its rows."""
    if len(inputs[0]) < 2 or len(output) < 2:
        return 2.0 * prod(output) * inputs[0][-1]
    summed = prod(inputs[0][-2:]) // output[-2] if output[-2] else 0
    return 2.0 * prod(output) * summed


def _einsum(equation: str, inputs: Sequence[Shape]) -> float:
    terms = equation.replace(" ", "").split("->")[0].split(",")
    sizes: dict[str, int] = {}
    rest = 1
    for term, shape in zip(terms, inputs, strict=False):
        before, dots, after = term.partition("...")
        sizes |= dict(zip(before, shape, strict=False))
        sizes |= dict(zip(reversed(after), reversed(shape), strict=False))
        if dots:
            rest = max(rest, prod(shape[len(before) : len(shape) - len(after)]))
    return (2.0 if len(terms) > 1 else 1.0) * rest * prod(sizes.values())


def _matrices(shapes: Sequence[Shape]) -> int:
    """Elements of the matrices among some weights."""
    return sum(prod(shape) for shape in shapes if len(shape) == 2)


def _past(inputs: Sequence[Shape], position: int, rank: int) -> int:
    """Steps of the earlier keys, the last dimension but one of that input; 0 if it is omitted."""
    shape = inputs[position] if position < len(inputs) else ()
    return shape[-2] if len(shape) == rank else 0


def _projected(inputs: Sequence[Shape], output: Shape, past: int) -> float:
    """Attention with its input projection; ``past`` is the position of earlier keys and values."""
    batch, steps, width = inputs[0]
    columns = prod(inputs[1][1:])
    scores = (columns - output[-1]) // 2 + output[-1]  # width of the queries plus width of the values
    return 2.0 * batch * steps * (width * columns + (steps + _past(inputs, past, 5)) * scores)


_FUNCTIONS = {
    "prod": prod,
    "len": len,
    "product": _product,
    "einsum": _einsum,
    "matrices": _matrices,
    "past": _past,
    "projected": _projected,
}


def element_bits(dtype: str) -> int | None:
    """Bits of one element by its type's name in any framework; None if it has no fixed size.

    Of a resource or a variant of TensorFlow Lite, only the handle counts; of ONNX's texts, the object that holds one.

    Examples
    --------
    >>> [element_bits(name) for name in ("float32", "FLOAT", "BF16", "F8E4M3", "uint4", "bool", "string")]
    [32, 32, 16, 8, 4, 8, None]
    """
    if dtype in KINDS["element_bits"]:
        return int(KINDS["element_bits"][dtype])
    found = re.match("[A-Za-z]+(1|2|3|4|6|8|16|32|64|128)(?![0-9])", dtype)
    return int(found[1]) if found else None
