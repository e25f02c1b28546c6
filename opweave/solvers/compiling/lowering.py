"""The part of numba that turns a typed function into LLVM's language, with less text for the same meaning.

Text is what compiling costs: numba writes it, LLVM parses, links and simplifies it, function by function. Four things
make most of it, and need not be written:

* A number or array that is assigned once, before all of its uses, is used as it is. numba gives it a place in memory,
  writes it there, and reads it again, whole, at each use.
* An array that is an argument belongs to the caller, which keeps it alive. numba counts its references all the same.
* An element of a contiguous array is found with the pointer and the lengths alone. numba copies the whole description
  of the array first.
* Most loops define no functions inside and compute no whole arrays, so the stages that look for these are left out.
"""

from __future__ import annotations

from collections import Counter
from types import CodeType
from typing import Any

import numba.core.types
from numba.core import analysis, cgutils, compiler, ir, lowering, typed_passes, untyped_passes
from numba.core.compiler_machinery import PassManager, register_pass
from numba.extending import overload
from numba.np import arrayobj

from opweave.solvers.compiling.calls import LENGTHS, PLACE, Lean, is_plain, plain_place

types: Any = numba.core.types
_Lower: Any = lowering.Lower
_Lowering: Any = typed_passes.BaseNativeLowering
_register: Any = register_pass


class LeanLower(_Lower):  # type: ignore[misc,unused-ignore]
    """numba's lowering of a function, with direct variables, borrowed arguments and plain element access."""

    def setup_function(self, fndesc: Any) -> None:
        """Declare the function; arrays come in few parts."""
        fndesc.argtypes = Lean(fndesc.argtypes)
        self._parts: dict[str, tuple[Any, list[Any]]] = {}
        self._indices: dict[str, list[Any]] = {}
        super().setup_function(fndesc)

    def _find_singly_assigned_variable(self) -> None:
        """Find the variables that need no place in memory, and those whose references are not counted."""
        self._blk_local_varmap: dict[str, Any] = {}
        self._counted = {name for name in self.fndesc.typemap if self._is_counted(name)}
        blocks = self.func_ir.blocks
        stores: Counter[str] = Counter()
        arguments: set[str] = set()
        for block in blocks.values():
            for statement in block.body:
                if isinstance(statement, ir.Assign):
                    stores[statement.target.name] += 1
                    if isinstance(statement.value, ir.Arg):
                        arguments.add(statement.target.name)
        use_defs = analysis.compute_use_defs(blocks)
        made_in = {name: label for label, names in use_defs.defmap.items() for name in names if stores[name] == 1}
        dominators = analysis.compute_cfg_from_blocks(blocks).dominators()
        late = {
            name
            for label, names in use_defs.usemap.items()
            for name in names
            if name in made_in and (made_in[name] >= label or made_in[name] not in dominators[label])
        }
        spread = {name for names in use_defs.usemap.values() for name in names}
        borrowed = {name for name in arguments if stores[name] == 1}
        self._borrowed = borrowed & self._counted
        self._singly_assigned_vars = {
            name for name in made_in if name not in late and (name in borrowed or name not in self._counted & spread)
        }

        self._index_tuples = self._only_indices() & self._singly_assigned_vars

    def _only_indices(self) -> set[str]:
        """Tuples that only say which element of a contiguous array is meant."""
        made: set[str] = set()
        elsewhere: set[str] = set()
        for block in self.func_ir.blocks.values():
            for statement in block.body:
                index = None
                if isinstance(statement, ir.Assign) and isinstance(statement.value, ir.Expr):
                    if statement.value.op == "build_tuple":
                        made.add(statement.target.name)
                    elif statement.value.op == "getitem":
                        index = (statement.value.value, statement.value.index)
                elif isinstance(statement, ir.SetItem):
                    index = (statement.target, statement.index)
                if isinstance(statement, ir.Del):
                    continue
                meant = index is not None and self._kinds(*index) is not None
                elsewhere.update(
                    each.name
                    for each in statement.list_vars()
                    if not (meant and index is not None and each.name == index[1].name)
                    and not (isinstance(statement, ir.Assign) and each is statement.target)
                )
        return made - elsewhere

    def _is_counted(self, name: str) -> bool:
        return bool(self.context.data_model_manager[self.typeof(name)].contains_nrt_meminfo())

    def lower_assign(self, ty: Any, inst: Any) -> Any:
        """Take an argument as it is; no reference to it is counted."""
        if isinstance(inst.value, ir.Arg) and inst.target.name in self._borrowed:
            return self.fnargs[inst.value.index]
        if inst.target.name in self._index_tuples:
            self._indices[inst.target.name] = [
                self.context.cast(self.builder, self.loadvar(each.name), self.typeof(each.name), kind)
                for each, kind in zip(inst.value.items, ty.types, strict=True)
            ]
            return None
        if isinstance(ty, types.Dispatcher) and isinstance(inst.value, (ir.Global, ir.FreeVar)):
            return self.context.get_dummy_value()  # a helper is called by its name
        return super().lower_assign(ty, inst)

    def lower_expr(self, resty: Any, expr: Any) -> Any:
        """Read lengths of contiguous arrays where they are."""
        if expr.op == "getattr" and expr.attr == "shape" and is_plain(self.typeof(expr.value.name)):
            _, lengths = self._whereabouts(expr.value.name, self.typeof(expr.value.name).ndim)
            return cgutils.pack_array(self.builder, lengths)
        return super().lower_expr(resty, expr)

    def lower_call(self, resty: Any, expr: Any) -> Any:
        """Take the length of a contiguous array from where it is."""
        if getattr(self.typeof(expr.func.name), "typing_key", None) is len and is_plain(self.typeof(expr.args[0].name)):
            _, lengths = self._whereabouts(expr.args[0].name, self.typeof(expr.args[0].name).ndim)
            return self.context.cast(self.builder, lengths[0], types.intp, resty)
        return super().lower_call(resty, expr)

    def alloca(self, name: str, kind: Any) -> Any:
        """Memory for a variable; only what is counted has to be clear at the start."""
        if name in self._counted:
            return super().alloca(name, kind)
        with self.builder.goto_entry_block():
            return self.builder.alloca(self.context.get_value_type(kind), name=name)

    def storevar(self, value: Any, name: str, argidx: int | None = None) -> None:
        """Store a variable; a number that it held before needs no release."""
        if name in self._index_tuples:
            return
        if name in self._singly_assigned_vars and name not in self._borrowed and is_plain(self.typeof(name)):
            shape = self.builder.extract_value(value, LENGTHS)
            lengths = [self.builder.extract_value(shape, axis) for axis in range(self.typeof(name).ndim)]
            self._parts[name] = self.builder.extract_value(value, PLACE), lengths
        if argidx is not None or name in self._counted or name in self._singly_assigned_vars:
            super().storevar(value, name, argidx)
        else:
            self.builder.store(value, self.getvar(name))

    def delvar(self, name: str) -> None:
        """Release what a variable holds, if it is counted and not the caller's."""
        if name in self._counted and name not in self._borrowed:
            super().delvar(name)

    def lower_getitem(self, resty: Any, expr: Any, value: Any, index: Any, signature: Any) -> Any:
        """Read an element; anything else than whole numbers into a contiguous array is left to numba."""
        array = self.typeof(value.name)
        place = self._place(array, value, index)
        if place is None:
            return super().lower_getitem(resty, expr, value, index, signature)
        if isinstance(array.dtype, types.Boolean):
            held = self.builder.load(place)
            return self.builder.icmp_unsigned("!=", held, held.type(0))
        found = arrayobj.load_item(self.context, self.builder, array, place)
        return self.context.cast(self.builder, found, array.dtype, resty)

    def lower_setitem(self, target_var: Any, index_var: Any, value_var: Any, signature: Any) -> Any:
        """Write an element; anything else than whole numbers into a contiguous array is left to numba."""
        array = self.typeof(target_var.name)
        place = self._place(array, target_var, index_var)
        kind = self.typeof(value_var.name)
        if place is None or isinstance(kind, types.Buffer):
            return super().lower_setitem(target_var, index_var, value_var, signature)
        value = self.context.cast(self.builder, self.loadvar(value_var.name), kind, array.dtype)
        return arrayobj.store_item(self.context, self.builder, array, value, place)

    def _place(self, array: Any, array_var: Any, index_var: Any) -> Any:
        """The pointer to an element; None if the indices name none, or the array is not contiguous."""
        kinds = self._kinds(array_var, index_var)
        if kinds is None:
            return None
        builder = self.builder
        if index_var.name in self._index_tuples:
            given = self._indices[index_var.name]
        elif isinstance(self.typeof(index_var.name), types.BaseTuple):
            whole = self.loadvar(index_var.name)
            given = [builder.extract_value(whole, axis) for axis in range(len(kinds))]
        else:
            given = [self.loadvar(index_var.name)]
        data, lengths = self._whereabouts(array_var.name, array.ndim)
        place = None
        for at, kind, length in zip(given, kinds, lengths, strict=True):
            start = self._from_start(at, kind, length)
            place = start if place is None else builder.add(builder.mul(place, length), start)
        return builder.gep(data, [place])

    def _kinds(self, array_var: Any, index_var: Any) -> tuple[Any, ...] | None:
        """The types of the numbers that name an element of a contiguous array; None for anything else."""
        array, index = self.typeof(array_var.name), self.typeof(index_var.name)
        kinds = tuple(index.types) if isinstance(index, types.BaseTuple) else (index,)
        plain = isinstance(array, types.Array) and array.layout == "C" and len(kinds) == array.ndim
        return kinds if plain and all(isinstance(kind, types.Integer) for kind in kinds) else None

    def _whereabouts(self, name: str, axes: int) -> tuple[Any, list[Any]]:
        """Place and lengths of a contiguous array."""
        if name in self._parts:
            return self._parts[name]
        if name in self._borrowed:
            held = self.loadvar(name)
            return held.parts[1], held.lengths
        return plain_place(self.builder, self.getvar(name), axes)

    def _from_start(self, at: Any, kind: Any, length: Any) -> Any:
        """An index counted from the start; negative ones count from the end."""
        builder = self.builder
        if isinstance(kind, types.IntegerLiteral):
            return builder.add(length, length.type(kind.literal_value)) if kind.literal_value < 0 else at
        at = self.context.cast(builder, at, kind, types.intp if kind.signed else types.uintp)
        if not kind.signed:
            return at
        return builder.select(builder.icmp_signed("<", at, at.type(0)), builder.add(at, length), at)


@_register(mutates_CFG=True, analysis_only=False)
class LeanLowering(_Lowering):  # type: ignore[misc,unused-ignore]
    """The stage that uses :class:`LeanLower`."""

    _name = "lean_lowering"

    @property
    def lowering_class(self) -> type:
        """The class that writes a function."""
        return LeanLower


@_register(mutates_CFG=True, analysis_only=False)
class ArrayRewrites(typed_passes.NopythonRewrites):  # type: ignore[misc,unused-ignore]
    """numba's rewriting of expressions with whole arrays, for functions that make an array."""

    _name = "array_rewrites"

    def run_pass(self, state: Any) -> bool:
        """Rewrite a function in place."""
        if any(name.startswith("$") and isinstance(kind, types.Array) for name, kind in state.typemap.items()):
            return bool(super().run_pass(state))
        return False


@_register(mutates_CFG=False, analysis_only=False)
class PlainCalls(untyped_passes.IRProcessing):  # type: ignore[misc,unused-ignore]
    """numba's first look at a function; a call with more than thirty arguments loses the tuple they come in."""

    _name = "plain_calls"

    def run_pass(self, state: Any) -> bool:
        """Give a call the arguments that its tuple is made of, and drop the tuple."""
        super().run_pass(state)
        for block in state.func_ir.blocks.values():
            packed: dict[str, Any] = {
                each.target.name: each
                for each in block.body
                if isinstance(each, ir.Assign) and isinstance(each.value, ir.Expr) and each.value.op == "build_tuple"
            }
            for each in list(block.body):
                call = each.value if isinstance(each, ir.Assign) else None
                if isinstance(call, ir.Expr) and call.op == "call" and call.vararg and call.vararg.name in packed:
                    given = packed[call.vararg.name]
                    call.args = [*call.args, *given.value.items]
                    call.vararg = None
                    block.remove(given)
                    del state.func_ir._definitions[given.target.name]
        return True


class LeanCompiler(compiler.CompilerBase):  # type: ignore[misc,unused-ignore]
    """numba's stages without those for parallel loops, ``with`` and functions that are passed on."""

    def define_pipelines(self) -> list[Any]:
        """The one sequence of stages."""
        stages: Any = PassManager("lean")
        nested = any(isinstance(each, CodeType) for each in self.state.func_id.code.co_consts)
        stages.add_pass(untyped_passes.TranslateByteCode, "bytecode")
        stages.add_pass(untyped_passes.FixupArgs, "arguments")
        stages.add_pass(PlainCalls, "variables' lives and long calls")
        if nested:
            stages.add_pass(untyped_passes.InlineClosureLikes, "functions inside")
        stages.add_pass(untyped_passes.RewriteSemanticConstants, "constants")
        stages.add_pass(untyped_passes.DeadBranchPrune, "branches that are never taken")
        stages.add_pass(untyped_passes.GenericRewrites, "constant indices and exceptions")
        stages.add_pass(untyped_passes.RewriteDynamicRaises, "exceptions with values")
        stages.add_pass(untyped_passes.ReconstructSSA, "one name for each value")
        stages.add_pass(typed_passes.NopythonTypeInference, "types")
        stages.add_pass(typed_passes.PreLowerStripPhis, "joins")
        stages.add_pass(ArrayRewrites, "whole arrays")
        stages.add_pass(typed_passes.IRLegalization, "order of releases")
        stages.add_pass(LeanLowering, "LLVM")
        stages.add_pass(typed_passes.NoPythonBackend, "result")
        stages.finalize()
        return [stages]


def assign(into: Any, value: Any) -> None:
    """``into[:] = value`` for arrays of one or two dimensions, with less generated code than NumPy's."""
    into[:] = value


_OPTIONS: Any = {"no_cfunc_wrapper": True, "no_cpython_wrapper": True}


@overload(assign, jit_options=_OPTIONS)
def _assign(into: Any, value: Any) -> Any:
    if not isinstance(value, types.Array):
        return _fill if into.ndim == 1 else _fill_rows
    if into.ndim != value.ndim:
        return _plain
    return _copy if into.ndim == 1 else _copy_rows


def _plain(into: Any, value: Any) -> None:
    into[:] = value


def _fill(into: Any, value: Any) -> None:
    for i in range(len(into)):
        into[i] = value


def _fill_rows(into: Any, value: Any) -> None:
    for i in range(into.shape[0]):
        for j in range(into.shape[1]):
            into[i, j] = value


def _copy(into: Any, value: Any) -> None:
    for i in range(len(into)):
        into[i] = value[i]


def _copy_rows(into: Any, value: Any) -> None:
    for i in range(into.shape[0]):
        for j in range(into.shape[1]):
            into[i, j] = value[i, j]
