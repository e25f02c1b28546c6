"""Expressions of side constraints: functions, registered by constraint type, that write a constraint for a target.

A *target* is a way of writing a rule. One function for ``"model"`` serves all engines and formulations. The others are
for searches, or for one formulation that can do better.

=====================  ==============================================================================================
target                 what the registered function receives and returns
=====================  ==============================================================================================
``"model"``            ``(model, constraint) -> None``; adds rows to the model of any formulation: ``model.add(row)``,
                       where the row compares variables such as ``model.on(op, device)`` or ``model.start(op)``
a formulation's name   ``(formulation, model, constraint) -> None``; the same for one formulation, whatever else is
                       registered
``"order_arcs"``       ``(problem, constraint) -> iterable of (before, after)`` operator ids; for searches over
                       operator orders, and all formulations with an order
``"step_rule"``        ``(problem, constraint) -> rule``; ``rule(done, op)`` says whether ``op`` may run next when
                       exactly the operators in the frozenset ``done`` have run; for searches over operator orders
=====================  ==============================================================================================

The variables have the same names in every formulation that has them (:mod:`opweave.formulations.modeling.linear`), in
seconds, bytes and counts; ``model.problem`` is the problem. An engine passes over formulations whose model lacks a
variable that the function uses.

A rule without any expression is honoured by its ``violations`` alone, by engines, ``"auto"`` and ``"pymoo"``: slowly,
because each plan is found before it is refused (:mod:`opweave.solvers.engines.rules`). A rule about the times of a
schedule then gets plans without proof.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from opweave.problems.constraints import (
    Colocate,
    Constraint,
    Forbid,
    MaxDevices,
    Pin,
    Precede,
    Separate,
    shares_meaning,
)
from opweave.problems.errors import InvalidInputError, blaming, named_code
from opweave.problems.problem import Problem
from opweave.problems.words import did_you_mean

Expression = Callable[..., Any]
ExpressionT = TypeVar("ExpressionT", bound=Expression)

MODEL = "model"
"""The target of rules that are written with variables."""

VIOLATIONS = "violations"
"""Stands among the targets of a solver that honours every rule by asking the referee; nothing is registered for it."""

_LINES = {
    MODEL: "def my_rule(model, rule): model.add(...)  # with model.on(op, device), model.start(op), ...",
    "order_arcs": "def my_rule(problem, rule): return [(before, after), ...]",
    "step_rule": "def my_rule(problem, rule): return lambda done, op: ...",
}
"""The second line of an expression for a target, for messages."""

_EXPRESSIONS: dict[tuple[type[Constraint], str], Expression] = {}


def express(constraint: type[Constraint], target: str) -> Callable[[ExpressionT], ExpressionT]:
    """Register a function that writes a constraint for ``target``.

    Parameters
    ----------
    constraint
        The class of the rule.
    target
        ``"model"``: ``function(model, constraint)`` adds constraints to the model of any formulation, for all engines
        and "auto": ``model.add(...)``. They compare model variables: ``model.on(op, device)``, ``model.start(op)``,
        ``model.end(op)``, ``model.before(a, b)``, ``model.position(op)``, ``model.batch(op, device)``,
        ``model.stage(op)``, ``model.share(op, device)``, ``model.uses(device)``, ``model.held(device)``,
        ``model.stages()`` and ``model.objective``; ``model.problem`` is the problem.

        A formulation's name: ``function(formulation, model, constraint)`` does the same for that one alone.

        ``"order_arcs"``: ``function(problem, constraint)`` returns pairs (before, after) of operators, for searches
        over orders. ``"step_rule"``: it returns ``rule(done, op)``, which says whether ``op`` may run next when exactly
        the operators in ``done`` have run.

    Raises
    ------
    InvalidInputError
        If ``constraint`` is not a constraint class, or the target is misspelt.

    Notes
    -----
    Subclasses inherit it unless they override ``violations``: then they have another meaning and need an expression of
    their own. Engines skip formulations without a model variable that the function uses. Constraints on times hold up
    to rounding, so ``violations`` should allow for some. ``model.objective`` can be limited only from above.

    Without any expression, ``violations`` alone is enough for engines and "auto". Their results are proved unless the
    rule is about the times of a schedule; ``result.reason`` says so.

    Examples
    --------
    >>> class Sooner(Constraint):
    ...     op: str
    ...     def violations(self, problem, solution):
    ...         return ()
    >>> @express(Sooner, "step_rule")
    ... def _sooner(problem, constraint):
    ...     return lambda done, op: op != constraint.op or len(done) < 3
    >>> expression(Sooner, "step_rule") is _sooner
    True
    >>> @express(Sooner, "model")
    ... def _sooner_as_row(model, rule):
    ...     model.add(model.position(rule.op) <= 2)
    """
    if not (isinstance(constraint, type) and issubclass(constraint, Constraint)):
        raise InvalidInputError(f"express takes a class derived from Constraint, and not {constraint!r:.80}")
    if target not in _LINES and (meant := did_you_mean(target, _LINES)):
        raise InvalidInputError(f"express has no target {target!r:.80}{meant}")

    def register(function: ExpressionT) -> ExpressionT:
        _EXPRESSIONS[constraint, target] = function
        return function

    return register


def taken_in(target: str, kinds: Iterable[type[Constraint]]) -> None:
    """Register for a target that constraints of these kinds are in the arrays of the problem, so nothing is added."""
    for kind in kinds:
        express(kind, target)(lambda *_: None)


def expression(constraint: type[Constraint], target: str) -> Expression | None:
    """The function registered for a constraint type or its nearest base with the same meaning; None without one."""
    for base in constraint.__mro__:
        if (base, target) in _EXPRESSIONS and shares_meaning(constraint, base):
            return _EXPRESSIONS[base, target]
    return None


def write_out(constraint: Constraint, target: str, write: Expression, *arguments: object) -> Any:
    """Let an expression write a constraint; ``arguments`` come before the constraint.

    Raises
    ------
    RuleError
        If it raises anything but errors of opweave.
    """
    with blaming(f"the expression of {type(constraint).__name__} for {target!r}"):
        written = write(*arguments, constraint)
        return list(written) if isinstance(written, Iterator) else written  # a generator has not begun yet


def extended(model: Any, problem: Problem[Any, Any], extend: Callable[[Any, Any], object] | None) -> None:
    """Let a user's function, if there is one, add rows to a model; a row that it returns or yields is added, too.

    Raises
    ------
    RuleError
        If it raises anything but errors of opweave.
    InvalidInputError
        If it puts components of Pyomo on a model that has none; they would be ignored.
    """
    if extend is not None:
        known = set(vars(model))
        of_pyomo = any(parent.__module__.startswith("pyomo.") for parent in type(model).__mro__)
        with blaming(named_code("extend", extend)):
            returned = extend(model, problem)
            for name in () if of_pyomo else vars(model).keys() - known:
                if type(getattr(model, name)).__module__.startswith("pyomo."):
                    raise InvalidInputError(
                        f"extend puts a component of Pyomo on model.{name}, and this model is not one of Pyomo's: "
                        "write model.add(row), or extend what ow.build_model(problem) returns"
                    )
            for row in returned if isinstance(returned, Iterator | list | tuple) else (returned,):
                if row is not None:
                    model.add(row)


def expressible(constraint: type[Constraint], supports: Iterable[str]) -> bool:
    """Whether any of the targets understands the constraint."""
    return any(target == VIOLATIONS or expression(constraint, target) is not None for target in supports)


def how_to_express(constraint: type[Constraint], supports: Iterable[str]) -> str:
    """The lines that teach a constraint to a solver or formulation, as the end of a message.

    Examples
    --------
    >>> print(how_to_express(Precede, ["order_arcs"]))
    to teach it the rule, write
        @ow.express(Precede, "order_arcs")
        def my_rule(problem, rule): return [(before, after), ...]
    """
    target = next((target for target in (MODEL, *_LINES) if target in supports), None)
    if target is None:
        return "it cannot be taught rules"
    return f'to teach it the rule, write\n    @ow.express({constraint.__name__}, "{target}")\n    {_LINES[target]}'


@express(Precede, "order_arcs")
def _precede_as_arc(_problem: Problem[Any, Any], constraint: Precede) -> Iterable[tuple[str, str]]:
    return ((constraint.before, constraint.after),)


def _devices(model: Any) -> list[str]:
    return [device.name for device in model.problem.cluster.devices]


@express(Pin, MODEL)
def _pin(model: Any, constraint: Pin) -> None:
    """The operator runs on its device and on no other one."""
    for device in _devices(model):
        model.add(model.on(constraint.op, device) == int(device == constraint.device))


@express(Forbid, MODEL)
def _forbid(model: Any, constraint: Forbid) -> None:
    """The operator does not run on the device."""
    model.add(model.on(constraint.op, constraint.device) == 0)


@express(Colocate, MODEL)
def colocate(model: Any, constraint: Colocate) -> None:
    """Every device runs all of the operators or none."""
    for device in _devices(model):
        for other in constraint.ops[1:]:
            model.add(model.on(constraint.ops[0], device) == model.on(other, device))


@express(Separate, MODEL)
def _separate(model: Any, constraint: Separate) -> None:
    """No device runs two of the operators."""
    for device in _devices(model):
        model.add(sum(model.on(op, device) for op in dict.fromkeys(constraint.ops)) <= 1)


@express(MaxDevices, MODEL)
def _max_devices(model: Any, constraint: MaxDevices) -> None:
    """The number of devices in use is limited."""
    model.add(sum(model.uses(device) for device in _devices(model)) <= constraint.count)
