"""Rewrite a loop and its helpers so that they pass no records, only the arrays that each of them uses.

Records (``NamedTuple`` of arrays and scalars) make the loops readable, but they are the slowest part of compiling: a
record of thirty arrays is two hundred numbers, which are copied at every mention and every call. Before a loop is
compiled, ``net.seconds`` therefore becomes the variable ``net__seconds``. A helper that takes the record takes the
fields that it (or one of its own helpers) reads, and a helper that returns a record returns a tuple. The loop itself
also takes the arrays; :func:`entry_of` makes the function that picks them from the records.

Records are recognised if they are arguments with an annotation, are built by name, are returned by a helper with such
an annotation, or are another name for one of these. A loop that does anything else with records cannot be compiled.
"""

from __future__ import annotations

import ast
import copy
import inspect
import sys
import textwrap
import types
import typing
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from opweave.problems.errors import InvalidInputError
from opweave.solvers.compiling.lowering import assign

FEW = 28
"""Largest number of arguments; Python calls functions with more arguments in another way."""

Path = tuple[int, tuple[str, ...]]
"""An argument by its number, and the field names that lead from it to an array; no names if it is not a record."""

Compile = Callable[[Callable[..., Any]], Any]
"""Makes a rewritten helper callable from compiled code."""


class NotFlatError(InvalidInputError):
    """A function uses a record in an unsupported way."""


@dataclass(frozen=True, slots=True)
class Record:
    """A variable that is a record: for every field, the variable that replaces it, or another record."""

    fields: dict[str, Record | str]

    def leaves(self) -> Iterator[str]:
        """The variables, in the order of the fields."""
        for field in self.fields.values():
            if isinstance(field, Record):
                yield from field.leaves()
            else:
                yield field


@dataclass(frozen=True, slots=True)
class Flat:
    """A rewritten function, and where its arguments are in those of the original."""

    function: Callable[..., Any]
    paths: tuple[Path, ...]


class Flattener:
    """Rewrites functions, each of them once.

    Parameters
    ----------
    compiled
        Function applied to every rewritten helper.
    """

    def __init__(self, compiled: Compile) -> None:
        self._compiled = compiled
        self._done: dict[Callable[..., Any], tuple[Any, tuple[Path, ...]]] = {}

    def loop(self, function: Callable[..., Any]) -> Flat:
        """Rewrite a loop.

        Raises
        ------
        NotFlatError
            When it or a helper uses records in an unsupported way, or has no source.
        """
        return _rewritten(function, self)

    def helper(self, function: Callable[..., Any]) -> tuple[Any, tuple[Path, ...]]:
        """The compiled version of a helper, and its arguments."""
        if function not in self._done:
            flat = _rewritten(function, self)
            self._done[function] = self._compiled(flat.function), flat.paths
        return self._done[function]


def entry_of(function: Callable[..., Any], paths: tuple[Path, ...], fast: Callable[..., Any]) -> Callable[..., Any]:
    """A function with the arguments of the original that passes on the arrays in them."""
    names = list(inspect.signature(function).parameters)
    given = ", ".join(".".join([names[number], *fields]) for number, fields in paths)
    made: dict[str, Any] = {"_fast": fast}
    exec(f"def entry({', '.join(names)}):\n return _fast({given})", made)
    return typing.cast(Callable[..., Any], made["entry"])


def _rewritten(function: Callable[..., Any], flattener: Flattener) -> Flat:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    except (OSError, TypeError, SyntaxError) as error:
        raise NotFlatError(f"{function.__qualname__} has no source") from error
    if not isinstance(tree, ast.FunctionDef) or function.__closure__ or tree.args.kwonlyargs or tree.args.vararg:
        raise NotFlatError(f"{function.__qualname__} is not a plain function")
    rewriter = _Rewriter(function, tree, flattener)
    names = [each.arg for each in tree.args.args]
    body = [rewritten for statement in tree.body for rewritten in _listed(rewriter.visit(statement))]
    arguments: list[str] = []
    paths: list[Path] = []
    for number, name in enumerate(names):
        if name not in rewriter.parameters:
            arguments.append(name)
            paths.append((number, ()))
            continue
        for fields, leaf in _paths(rewriter.parameters[name]):
            if leaf in rewriter.used:
                arguments.append(leaf)
                paths.append((number, fields))
    tree.args = ast.arguments([], [ast.arg(each) for each in arguments], None, [], [], None, [])
    tree.body, tree.decorator_list, tree.returns = body, [], None
    module = ast.fix_missing_locations(ast.Module([tree], []))
    space = {**function.__globals__, **rewriter.helpers}
    exec(compile(module, inspect.getfile(function), "exec"), space)
    return Flat(space[function.__name__], tuple(paths))


def _listed(statements: Any) -> list[ast.stmt]:
    return statements if isinstance(statements, list) else [statements]


def _paths(record: Record) -> Iterator[tuple[tuple[str, ...], str]]:
    for name, field in record.fields.items():
        if isinstance(field, Record):
            yield from (((name, *rest), leaf) for rest, leaf in _paths(field))
        else:
            yield (name,), field


def _is_record(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")


def _is_helper(value: object) -> bool:
    """Whether a value is a function that can be rewritten; the compiler has its own standard library."""
    return isinstance(value, types.FunctionType) and value.__module__ not in sys.stdlib_module_names


def _expanded(name: str, kind: type) -> Record:
    """A record whose fields are new variables."""
    hints = typing.get_type_hints(kind)
    return Record(
        {
            field: _expanded(f"{name}__{field}", hints[field]) if _is_record(hints[field]) else f"{name}__{field}"
            for field in hints
            if field in kind._fields  # type: ignore[attr-defined]
        }
    )


class _Rewriter(ast.NodeTransformer):
    """Rewrites the body of one function, statement by statement."""

    def __init__(self, function: Callable[..., Any], tree: ast.FunctionDef, flattener: Flattener) -> None:
        self._space = function.__globals__
        self._flattener = flattener
        self._hints = typing.get_type_hints(function)
        self._ranges = 0
        self.used: set[str] = set()
        self.helpers: dict[str, Any] = {}
        self.parameters = {
            each.arg: _expanded(each.arg, self._hints[each.arg])
            for each in tree.args.args
            if _is_record(self._hints.get(each.arg))
        }
        self._records: dict[str, Record] = dict(self.parameters)
        self._stores = Counter(each.arg for each in tree.args.args)
        self._stores.update(
            each.id for each in ast.walk(tree) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
        )

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self._records:
            raise NotFlatError(f"the record {node.id} is used as a whole")
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        record = self._record(node.value)
        if record is None:
            return typing.cast(ast.expr, self.generic_visit(node))
        field = record.fields.get(node.attr)
        if not isinstance(field, str):
            raise NotFlatError(f"the record {ast.unparse(node)} is used as a whole")
        return self._read(field)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        target = self._global(node.func)
        if not _is_helper(target):
            return typing.cast(ast.expr, self.generic_visit(node))
        made, paths = self._flattener.helper(target)
        self.helpers[typing.cast(ast.Name, node.func).id] = made
        given = self._bound(target, node)
        arguments: list[ast.expr] = []
        for number, fields in paths:
            if not fields:
                arguments.append(self.visit(copy.deepcopy(given[number])))
                continue
            record: Record | str | None = self._record(given[number])
            for field in fields:
                if not isinstance(record, Record):
                    raise NotFlatError(f"{ast.unparse(node)} takes an unknown record")
                record = record.fields[field]
            arguments.append(self._read(typing.cast(str, record)))
        if len(arguments) > FEW and any(isinstance(inner, ast.IfExp) for each in arguments for inner in ast.walk(each)):
            raise NotFlatError(f"{ast.unparse(node)} branches in a long argument list, which numba does not compile")
        return ast.copy_location(ast.Call(node.func, arguments, []), node)

    def visit_For(self, node: ast.For) -> ast.stmt | list[ast.stmt]:
        """Write a loop over a range as a ``while`` loop, for which the compiler needs no iterator."""
        numbers = self._range(node.iter)
        if numbers is None or node.orelse or not isinstance(node.target, ast.Name):
            return typing.cast(ast.stmt, self.generic_visit(node))
        start, stop, step = numbers
        self._ranges += 1
        at, end = f"_at{self._ranges}", f"_end{self._ranges}"
        advance = ast.BinOp(_named(at), ast.Add(), ast.Constant(step))
        body: list[ast.stmt] = [ast.Assign([node.target], _named(at)), ast.Assign([ast.Name(at, ast.Store())], advance)]
        body += [rewritten for statement in node.body for rewritten in _listed(self.visit(statement))]
        test = ast.Compare(_named(at), [ast.Lt() if step > 0 else ast.Gt()], [_named(end)])
        before = [
            ast.Assign([ast.Name(at, ast.Store())], self.visit(start)),
            ast.Assign([ast.Name(end, ast.Store())], self.visit(stop)),
        ]
        return [ast.copy_location(each, node) for each in (*before, ast.While(test, body, []))]

    def _range(self, loop: ast.expr) -> tuple[ast.expr, ast.expr, int] | None:
        """Start, end and step of a range whose step is written as a number; None for anything else."""
        if not isinstance(loop, ast.Call) or not isinstance(loop.func, ast.Name) or loop.func.id != "range":
            return None
        if "range" in self._space or "range" in self._stores or not 1 <= len(loop.args) <= 3:
            return None
        step = 1 if len(loop.args) < 3 else _number(loop.args[2])
        if step is None or step == 0:
            return None
        start, stop = (ast.Constant(0), loop.args[0]) if len(loop.args) == 1 else loop.args[:2]
        return start, stop, step

    def visit_Assign(self, node: ast.Assign) -> ast.stmt | list[ast.stmt]:
        target, value = node.targets[0], node.value
        if isinstance(target, ast.Subscript) and _is_everything(target.slice):
            self.helpers["_assign"] = assign
            call = ast.Call(ast.Name("_assign", ast.Load()), [self.visit(target.value), self.visit(value)], [])
            return ast.copy_location(ast.Expr(call), node)
        if isinstance(target, ast.Name) and self._gives_record(value):
            return self._bind(target.id, value) or ast.Pass()
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and any(map(self._gives_record, value.elts)):
            return self._split(target, value)
        return typing.cast(ast.stmt, self.generic_visit(node))

    def visit_Return(self, node: ast.Return) -> ast.stmt | list[ast.stmt]:
        if not _is_record(self._hints.get("return")) or node.value is None:
            return typing.cast(ast.stmt, self.generic_visit(node))
        before = self._bind("_returned", node.value)
        leaves: list[ast.expr] = [self._read(leaf) for leaf in self._records.pop("_returned").leaves()]
        return [*before, ast.Return(ast.Tuple(leaves, ast.Load()))]

    def _split(self, target: ast.Tuple, value: ast.Tuple) -> list[ast.stmt]:
        """Split a multiple assignment into single assignments, one after the other."""
        statements: list[ast.stmt] = []
        bound: set[str] = set()
        for name, each in zip(target.elts, value.elts, strict=True):
            if bound & {inner.id for inner in ast.walk(each) if isinstance(inner, ast.Name)}:
                raise NotFlatError(f"{ast.unparse(target)} are assigned at once")
            statements += _listed(self.visit(ast.Assign([name], each)))
            bound |= {inner.id for inner in ast.walk(name) if isinstance(inner, ast.Name)}
        return statements

    def _bind(self, name: str, value: ast.expr) -> list[ast.stmt]:
        """Make a variable a record; return the statements that remain at run time."""
        if name in self._records or self._stores[name] > 1:
            raise NotFlatError(f"the record {name} is assigned twice")
        alias = self._record(value)
        if alias is not None:
            self._records[name] = alias
            return []
        if not isinstance(value, ast.Call):
            raise NotFlatError(f"{ast.unparse(value)} is not a known record")
        made = self._global(value.func)
        if not _is_record(made):
            record = _expanded(name, typing.get_type_hints(made)["return"])
            names: list[ast.expr] = [ast.Name(leaf, ast.Store()) for leaf in record.leaves()]
            call = self.visit(value)
            self._records[name] = record
            return [ast.Assign([ast.Tuple(names, ast.Store())], call)]
        statements: list[ast.stmt] = []
        fields: dict[str, Record | str] = {}
        for field, each in zip(made._fields, self._bound(made, value), strict=True):
            variable = f"{name}__{field}"
            if self._gives_record(each):
                statements += self._bind(variable, each)
                fields[field] = self._records[variable]
            elif isinstance(each, ast.Name) and self._stores[each.id] == 1:
                fields[field] = each.id
            else:
                statements.append(ast.Assign([ast.Name(variable, ast.Store())], self.visit(each)))
                fields[field] = variable
        self._records[name] = Record(fields)
        return statements

    def _gives_record(self, value: ast.expr) -> bool:
        if self._record(value) is not None:
            return True
        made = self._global(value.func) if isinstance(value, ast.Call) else None
        if _is_helper(made):
            return _is_record(typing.get_type_hints(made).get("return"))
        return _is_record(made)

    def _record(self, value: ast.expr) -> Record | None:
        """The record that an expression names; None if it names none."""
        if isinstance(value, ast.Name):
            return self._records.get(value.id)
        if isinstance(value, ast.Attribute):
            record = self._record(value.value)
            field = None if record is None else record.fields.get(value.attr)
            return field if isinstance(field, Record) else None
        return None

    def _global(self, name: ast.expr) -> Any:
        if not isinstance(name, ast.Name) or name.id in self._stores:
            return None
        return self._space.get(name.id)

    def _bound(self, function: Callable[..., Any], call: ast.Call) -> list[ast.expr]:
        """The arguments of a call, in the order of the called function's parameters."""
        try:
            named = {str(each.arg): each.value for each in call.keywords}
            found = inspect.signature(function).bind(*call.args, **named).arguments
            return [found[name] for name in inspect.signature(function).parameters]
        except (TypeError, KeyError) as error:
            raise NotFlatError(f"{ast.unparse(call)} leaves arguments out") from error

    def _read(self, leaf: str) -> ast.Name:
        self.used.add(leaf)
        return ast.Name(leaf, ast.Load())


def _named(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _number(written: ast.expr) -> int | None:
    """A whole number that is written out; None for anything else."""
    try:
        found = ast.literal_eval(written)
    except ValueError:
        return None
    return found if isinstance(found, int) else None


def _is_everything(index: ast.expr) -> bool:
    return isinstance(index, ast.Slice) and index.lower is None and index.upper is None and index.step is None
