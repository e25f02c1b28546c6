"""What numba reads from a function between its stages, with less work: variables of a statement, and their lives.

After each stage, numba works out where every variable of a function lives. Only the last stage and generators ask.
"""

from __future__ import annotations

from typing import Any

import numba.core.ir
from numba.core import postproc, transforms

ir: Any = numba.core.ir
_Processor: Any = postproc.PostProcessor
_PROCESS: Any = _Processor.run
_BARE = frozenset({str, int, float, bool, type(None), ir.Loc})
"""Types of what a statement holds besides variables."""


def variables(_: object, held: Any) -> list[Any]:
    """Every variable in what a statement holds, in the order of its fields."""
    kind = type(held)
    if kind is ir.Var:
        return [held]
    if kind is dict:
        held = held.values()
    elif kind is not list and kind is not tuple:
        return held.list_vars() if isinstance(held, ir.Inst) else []
    found: list[Any] = []
    for each in held:
        kind = type(each)
        if kind is ir.Var:
            found.append(each)
        elif kind not in _BARE:
            found += variables(None, each)
    return found


def process(processor: Any, emit_dels: bool = False, extend_lifetimes: bool = False) -> None:
    """Work after a stage; lives of variables are worked out when they are asked for."""
    function = processor.func_ir
    if function.is_generator:
        _PROCESS(processor, emit_dels, extend_lifetimes)
        return
    function.blocks = transforms.canonicalize_cfg(function.blocks)
    function.variable_lifetime = postproc.VariableLifetime(function.blocks)
    function.generator_info = None
    if emit_dels:
        processor._insert_var_dels(extend_lifetimes=extend_lifetimes)
