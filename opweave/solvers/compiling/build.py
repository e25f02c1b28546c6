"""Compile a loop to machine code, as bytes that another process can load.

numba normally optimises every helper, compiles it to machine code, and then puts it into its callers, where it is
optimised again. Here only the loop itself, with all helpers inlined, is optimised and compiled, once. This, and leaving
out wrappers around helpers, saves more than half of the backend's time. The stages before the backend become faster by
splitting records (:mod:`~opweave.solvers.compiling.flatten`), and by remembering what an operator gives: numba asks all
of its rules for it again whenever an array is indexed, which took a fifth of the whole time.

Less is written before the backend, too (:mod:`~opweave.solvers.compiling.lowering`).

The compiler's types of a loop's arguments are read from its annotations. ``IntArray`` and similar types have one
dimension; the matrix and cube types of :mod:`opweave.problems.arrays` have more. Arrays are contiguous and writable.
``int``, ``float`` and ``bool`` are scalars. A ``NamedTuple`` of all these is a record.

All names in the machine code except one are private to it. One process loads code that several processes compiled, and
numba numbers its functions from the start in each of them.
"""

from __future__ import annotations

import gc
import inspect
import itertools
import pickle
import secrets
import typing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import llvmlite.binding
import numba
import numpy as np
from numba.core import bytecode, compiler, compiler_lock, cpu, errors, ir, postproc, registry, serialize, types
from numba.core.codegen import JITCodeLibrary
from numba.core.runtime.context import NRTContext
from numba.core.types import functions

from opweave.problems.errors import InvalidInputError
from opweave.solvers.compiling import reading
from opweave.solvers.compiling.calls import LeanConvention, owners
from opweave.solvers.compiling.flatten import Flattener, entry_of
from opweave.solvers.compiling.lowering import LeanCompiler

OPTIONS: dict[str, Any] = {"nogil": True, "no_cfunc_wrapper": True}
"""Options of numba's ``jit`` for loops."""

HELPER_OPTIONS: dict[str, Any] = {"nopython": True, "no_cfunc_wrapper": True, "no_cpython_wrapper": True}
"""Options of numba's ``jit`` for the helpers that loops call."""

INLINED = 1000
"""Size of helpers that become part of their callers, nearly all: with LLVM's own 225, one loop takes 12 % longer."""

_jit: Any = numba.njit
_result: Any = compiler.CompileResult
_dumps: Any = serialize.dumps


class _HelperCode(JITCodeLibrary):  # type: ignore[misc,unused-ignore]
    """Code that is only inlined into other code; it is neither optimised separately nor compiled to machine code.

    It stays apart from what it calls: the loop links all of its helpers, each once.
    """

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def finalize(self) -> None:
        self._raise_if_finalized()
        self._finalize_final_module()

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


class _LoopCode(_HelperCode):
    """The code of a loop and all its helpers, fully optimised; only its entry point is visible from outside.

    Loops that jump about in arrays gain nothing from several elements at a time, nor from bodies that are written out
    several times: eight loops of five problems run as fast without, and the backend needs half the time.
    """

    def finalize(self) -> None:
        for library in self._linking_libraries:  # grows on the way
            self._linking_libraries += [
                each for each in library._linking_libraries if each not in self._linking_libraries
            ]
        super(_HelperCode, self).finalize()

    def _optimize_final_module(self) -> None:
        for function in self._final_module.functions:
            if not function.is_declaration and not function.name.startswith("_ZN7cpython"):
                function.linkage = "internal"
        wanted = llvmlite.binding.create_pipeline_tuning_options(speed_level=2)
        wanted.loop_vectorization = wanted.slp_vectorization = False
        wanted.loop_interleaving = wanted.loop_unrolling = False
        wanted.inlining_threshold = INLINED
        builder = llvmlite.binding.create_pass_builder(self._codegen._tm, wanted)
        passes = builder.getModulePassManager()
        passes.add_refprune_pass()
        passes.run(self._final_module, builder)


class _LoopCompiler(LeanCompiler):
    """The stages of helpers, with :class:`_LoopCode` as the library for the generated code."""

    def __init__(self, typing_context: Any, target: Any, library: Any, *rest: Any) -> None:
        code: Any = _LoopCode
        start: Any = super().__init__
        start(typing_context, target, code(target.codegen(), "loop"), *rest)


@contextmanager
def _lean(codegen: Any) -> Iterator[None]:
    """Compile with less work, and put helpers into :class:`_HelperCode`. They have no address, so none is registered.

    A compiler makes millions of small objects that live on, so no garbage is collected meanwhile.
    """
    changes: tuple[tuple[Any, str, Any], ...] = (
        (codegen, "_library_class", _HelperCode),
        (codegen, "set_env", _ignore),
        (functions.BaseFunction, "get_call_type", _remembered),
        (cpu.CPUContext, "call_conv", property(LeanConvention)),
        (NRTContext, "get_meminfos", owners),
        (type(errors.termcolor()), "_markup", _plain),
        (ir.Inst, "_rec_list_vars", reading.variables),
        (postproc.PostProcessor, "run", reading.process),
        (bytecode.FunctionIdentity, "_unique_ids", itertools.count(secrets.randbits(60))),
    )
    usual = [(owner, name, vars(owner).get(name, _ABSENT)) for owner, name, _ in changes]
    collecting = gc.isenabled()
    gc.disable()
    for owner, name, value in changes:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in usual:
            if value is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
        if collecting:
            gc.enable()


_ABSENT = object()


def _plain(_scheme: object, message: str, *_: object, **__: object) -> str:
    """A message without colours; most are made while rules for a call are tried, and never shown."""
    return message


def _ignore(name: str, environment: object) -> None:
    pass


_ASKED: Any = functions.BaseFunction.get_call_type
_CALLS: dict[tuple[int, int, tuple[Any, ...]], tuple[Any, Any, Any]] = {}
"""The signature of a function for types of arguments. Function and context are told apart by their addresses, and stay
alive with the entry."""


def _remembered(function: Any, context: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """The signature of a built-in function for these types, worked out once; a failure is worked out again."""
    if named:
        return _ASKED(function, context, arguments, named)
    key = id(function), id(context), tuple(arguments)
    if key not in _CALLS:
        found = _ASKED(function, context, arguments, named)
        if found is None:
            return None
        _CALLS[key] = found, function, context
    return _CALLS[key][0]


class _Helper(registry.CPUDispatcher):  # type: ignore[misc,unused-ignore]
    """A helper of loops. A zero is most often what a variable starts with, so it asks for no version of its own.

    Other numbers that are written in a call do: loops that step forwards or backwards run a quarter longer without.
    """

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """The helper's signature for these types of arguments."""
        plain = (types.unliteral(each) if getattr(each, "literal_value", 1) == 0 else each for each in args)
        return super().get_call_template(tuple(plain), kws)


def _helper(function: Callable[..., Any]) -> Any:
    made: Any = _Helper
    return made(function, targetoptions=HELPER_OPTIONS, pipeline_class=LeanCompiler)


_FLATTENER = Flattener(_helper)


def build(function: Callable[..., object], signature: tuple[Any, ...]) -> bytes:
    """Compile a function for the given argument types.

    Raises
    ------
    NotFlatError
        When it uses records in an unsupported way.
    numba.core.errors.NumbaError
        When it cannot be compiled.
    """
    target = registry.cpu_target.target_context
    flat = _FLATTENER.loop(function)
    taken = tuple(_field_type(signature[number], fields) for number, fields in flat.paths)
    with compiler_lock.global_compiler_lock:
        made = _jit(pipeline_class=_LoopCompiler, **OPTIONS)(flat.function)
        target.refresh()
        with _lean(target.codegen()):
            made.compile(taken)
            return pickle.dumps((flat.paths, _packed(made.overloads[taken])))


def _field_type(kind: Any, fields: tuple[str, ...]) -> Any:
    """The type that a chain of field names leads to in a record."""
    for name in fields:
        kind = kind.types[kind.fields.index(name)]
    return kind


def _packed(result: Any) -> bytes:
    """The parts that :func:`load` needs, without the intermediate code that numba keeps for further inlining."""
    library = result.library
    result.fndesc.argtypes = tuple(result.fndesc.argtypes)
    entry = result.fndesc.llvm_cpython_wrapper_name
    environments = [each.env_name for each in result._find_referenced_environments()]
    names = "\n".join(
        [f'define void @"{entry}"() {{ ret void }}', *(f'@"{name}" = global i8 0' for name in environments)]
    )
    symbols = llvmlite.binding.parse_assembly(names).as_bitcode()
    code = library._codegen._tm.emit_object(library._final_module)
    library.serialize_using_object_code = lambda: (library.name, "object", (code, symbols))
    return bytes(_dumps(result._reduce()))


def make_ready() -> None:
    """Prepare the compiler for this processor, as the first loop that is loaded would otherwise do."""
    with compiler_lock.global_compiler_lock:
        registry.cpu_target.target_context.refresh()


def load(function: Callable[..., object], packed: bytes) -> Callable[..., Any]:
    """Make machine code callable in this process."""
    paths, code = pickle.loads(packed)
    with compiler_lock.global_compiler_lock:
        target = registry.cpu_target.target_context
        target.refresh()
        result = _result._rebuild(target, *pickle.loads(code))
        made = _jit(**OPTIONS)(_flat_stub(len(paths)))
        made.add_overload(result)
        made.disable_compile()
    return entry_of(function, paths, made)


def _flat_stub(count: int) -> Callable[..., Any]:
    """A function with ``count`` arguments; numba asks only for their number."""
    made: dict[str, Any] = {}
    exec(f"def loop({', '.join(f'a{i}' for i in range(count))}): pass", made)
    return made["loop"]  # type: ignore[no-any-return]


SCALARS = {int: types.int64, float: types.float64, bool: types.boolean}


def signature_of(function: Callable[..., object]) -> tuple[Any, ...]:
    """The types of a function's arguments.

    Raises
    ------
    InvalidInputError
        When an argument has no annotation, or one that compiled loops do not support.

    Examples
    --------
    >>> from opweave.problems.arrays import FloatMatrix
    >>> def scaled(matrix: FloatMatrix, factor: float) -> None: ...
    >>> signature_of(scaled)
    (Array(float64, 2, 'C', False, aligned=True), float64)
    """
    hints = typing.get_type_hints(function, include_extras=True)
    found = []
    for name in inspect.signature(function).parameters:
        try:
            found.append(_type_of(hints[name]))
        except (KeyError, TypeError) as error:
            raise InvalidInputError(f"argument {name} of {function.__qualname__}: no type for {error}") from None
    return tuple(found)


def _type_of(hint: Any) -> Any:
    dimensions = 1
    if typing.get_origin(hint) is Annotated:
        hint, dimensions = typing.get_args(hint)
    if hint in SCALARS:
        return SCALARS[hint]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is np.ndarray:
        scalar = typing.get_args(arguments[1])[0]
        return types.Array(numba.from_dtype(np.dtype(scalar)), dimensions, "C")
    if origin is tuple:
        return types.BaseTuple.from_types([_type_of(each) for each in arguments])
    if hasattr(hint, "_fields"):
        fields = typing.get_type_hints(hint, include_extras=True)
        return types.BaseTuple.from_types([_type_of(fields[name]) for name in hint._fields], hint)
    raise TypeError(hint)
