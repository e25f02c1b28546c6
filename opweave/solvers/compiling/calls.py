"""How a compiled loop calls its helpers: with less than numba passes, sets and asks for at each call.

numba passes an array as seven numbers and more, among them its count of elements, the size of one, and the strides, all
of which follow from its type and lengths. Here an array without gaps is passed as its owner, its place and its lengths.
The rest is filled in by the called function. After a call, only one question is asked: whether it failed.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import llvmlite.ir
import numba.core.types
from numba.core import callconv, cgutils
from numba.core.datamodel import packer
from numba.np.numpy_support import as_dtype

types: Any = numba.core.types
_llvm: Any = llvmlite.ir
_Convention: Any = callconv.CPUCallConv

OWNER, COUNT, PLACE, LENGTHS, STRIDES = 0, 2, 4, 5, 6
"""Where the parts of an array are in numba's description of it."""


class Lean(tuple[Any, ...]):
    """The types of a function's arguments, if its arrays without gaps are passed in few parts."""


def is_plain(kind: Any) -> bool:
    """Whether values of a type are arrays without gaps."""
    return type(kind) is types.Array and kind.layout == "C"


class _PlainArray:
    """How an array without gaps is passed: as its owner, its place and its lengths."""

    def __init__(self, kind: Any, model: Any) -> None:
        self._whole = model.get_value_type()
        self._axes = kind.ndim
        self._size = as_dtype(kind.dtype).itemsize

    def get_argument_type(self) -> tuple[Any, ...]:
        """LLVM's types of the parts."""
        return tuple(self._whole.elements[part] for part in (OWNER, PLACE, LENGTHS))

    def as_argument(self, builder: Any, value: Any) -> tuple[Any, ...]:
        """The parts of a description; those that it was made of, if it came as an argument."""
        known: tuple[Any, ...] | None = getattr(value, "parts", None)
        return known or tuple(builder.extract_value(value, part) for part in (OWNER, PLACE, LENGTHS))

    def from_argument(self, builder: Any, parts: tuple[Any, ...]) -> Any:
        """The whole description."""
        owner, place, shape = parts
        number = shape.type.element
        lengths = [builder.extract_value(shape, axis) for axis in range(self._axes)]
        strides = [number(self._size)]
        for length in reversed(lengths[1:]):
            strides.insert(0, builder.mul(strides[0], length))
        count = lengths[0]
        for length in lengths[1:]:
            count = builder.mul(count, length)
        known = [kind(None) for kind in self._whole.elements]
        known[COUNT + 1] = number(self._size)
        known[STRIDES] = shape.type([*(number(0) for _ in lengths[1:]), number(self._size)])
        whole = self._whole(known)
        for part, value in ((OWNER, owner), (COUNT, count), (PLACE, place), (LENGTHS, shape)):
            whole = builder.insert_value(whole, value, part)
        for axis, stride in enumerate(strides[:-1]):
            whole = builder.insert_value(whole, stride, [STRIDES, axis])
        whole.parts, whole.lengths = parts, lengths
        return whole


class _Models:
    """numba's ways to pass values, with another one for arrays without gaps."""

    def __init__(self, models: Any) -> None:
        self._models = models

    def lookup(self, kind: Any) -> Any:
        """How values of a type are passed."""
        model = self._models.lookup(kind)
        return _PlainArray(kind, model) if is_plain(kind) else model


class _Outcome:
    """What a call gave back. Each question about it is written into the code where it is first asked."""

    def __init__(self, builder: Any, code: Any, error_place: Any, may_lack: bool) -> None:
        self._builder = builder
        self.code = code
        self._error_place = error_place
        self._may_lack = may_lack

    def _is(self, code: Any) -> Any:
        return self._builder.icmp_signed("==", self.code, code)

    @property
    def excinfoptr(self) -> Any:
        """The error; it is read only where it is asked for."""
        return self._builder.load(self._error_place)

    @cached_property
    def is_none(self) -> Any:
        """Whether the call returned an optional value that is missing."""
        return self._is(callconv.RETCODE_NONE)

    @cached_property
    def is_ok(self) -> Any:
        """Whether the call returned."""
        returned = self._is(callconv.RETCODE_OK)
        return self._builder.or_(returned, self.is_none) if self._may_lack else returned

    @cached_property
    def is_error(self) -> Any:
        """Whether the call failed."""
        if self._may_lack:
            return self._builder.not_(self.is_ok)
        return self._builder.icmp_signed("!=", self.code, callconv.RETCODE_OK)

    @cached_property
    def is_python_exc(self) -> Any:
        """Whether Python knows the error."""
        return self._is(callconv.RETCODE_EXC)

    @cached_property
    def is_stop_iteration(self) -> Any:
        """Whether an iterator has ended."""
        return self._is(callconv.RETCODE_STOPIT)

    @cached_property
    def is_user_exc(self) -> Any:
        """Whether the call raised an error."""
        return self._builder.icmp_signed(">=", self.code, callconv.RETCODE_USEREXC)


class LeanConvention(_Convention):  # type: ignore[misc,unused-ignore]
    """numba's calls, with arrays in few parts where a function takes them so. Code with ``try`` cannot use it."""

    def _get_arg_packer(self, argtypes: Any) -> Any:
        if isinstance(argtypes, Lean):
            pack: Any = packer.ArgPacker
            return pack(_Models(self.context.data_model_manager), argtypes)
        return super()._get_arg_packer(argtypes)

    def call_function(
        self, builder: Any, callee: Any, resty: Any, argtys: Any, args: Any, attrs: Any = None
    ) -> tuple[Any, Any]:
        """Call a function; what it gives back is not cleared before, as it is not read after an error."""
        function = builder.function
        with builder.goto_entry_block():
            result = builder.alloca(self.get_return_type(resty).pointee)
            if not hasattr(function, "error_place"):
                function.error_place = builder.alloca(_llvm.PointerType(callconv.excinfo_t))
        given = self._get_arg_packer(argtys).as_arguments(builder, args)
        code = builder.call(callee, [result, function.error_place, *given], attrs=tuple(attrs or ()))
        outcome = _Outcome(builder, code, function.error_place, isinstance(resty, types.Optional))
        return outcome, self.context.get_returned_value(builder, resty, builder.load(result))

    def return_user_exc(
        self, builder: Any, exc: Any, exc_args: Any = None, loc: Any = None, func_name: Any = None
    ) -> None:
        """Raise an error."""
        self.set_static_user_exc(builder, exc, exc_args=exc_args, loc=loc, func_name=func_name)
        self._return_errcode_raw(builder, callconv.RETCODE_USEREXC)

    def return_status_propagate(self, builder: Any, status: Any) -> None:
        """Return an error to the caller."""
        builder.store(status.excinfoptr, self._get_excinfo_argument(builder.function))
        self._return_errcode_raw(builder, status.code)


def owners(runtime: Any, builder: Any, kind: Any, value: Any) -> list[tuple[Any, Any]]:
    """The types and owners of what is counted in a value; numba takes every other part of it out, too."""
    models = runtime._context.data_model_manager
    model = models[kind]
    found = [(kind, model.get_nrt_meminfo(builder, value))] if model.has_nrt_meminfo() else []
    if model.contains_nrt_meminfo():
        for inner, part in model.traverse(builder):
            if models[inner].contains_nrt_meminfo():
                found += owners(runtime, builder, inner, part(value))
    return found


def plain_place(builder: Any, slot: Any, axes: int) -> tuple[Any, list[Any]]:
    """Place and lengths of an array whose description is in memory."""
    place = builder.load(cgutils.gep_inbounds(builder, slot, 0, PLACE))
    return place, [builder.load(cgutils.gep_inbounds(builder, slot, 0, LENGTHS, axis)) for axis in range(axes)]
