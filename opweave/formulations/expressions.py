"""Expressions of side constraints: functions, registered by constraint type, that write a constraint for a target.

A *target* is a way of writing a rule. Searches over operator orders understand ``"order_arcs"`` and ``"step_rule"``;
the name of every formulation, and every word of the handles, is a target of its own.

=====================  ==============================================================================================
target                 what the registered function receives and returns
=====================  ==============================================================================================
``"order_arcs"``       ``(problem, constraint) -> iterable of (before, after)`` operator ids
``"step_rule"``        ``(problem, constraint) -> rule``; ``rule(done, op)`` says whether ``op`` may run next when
                       exactly the operators in the frozenset ``done`` have run
a formulation's name   ``(formulation, model, constraint) -> None``; adds rows to the model: ``model.add(row)``, where
                       the row compares handles such as ``model.on(op, device)`` or ``model.start(op)``
a word of the handles  the same, for every formulation whose model has the handle, such as ``"on"``; it is used where
                       no other target of the formulation understands the constraint
=====================  ==============================================================================================

The words of the handles are the same in every formulation that has them (:mod:`opweave.formulations.modeling.handles`),
in seconds, bytes and counts; ``model.problem`` is the problem. One function can serve several targets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
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
from opweave.problems.problem import Problem

Expression = Callable[..., Any]
ExpressionT = TypeVar("ExpressionT", bound=Expression)

_EXPRESSIONS: dict[tuple[type[Constraint], str], Expression] = {}


def express(constraint: type[Constraint], target: str) -> Callable[[ExpressionT], ExpressionT]:
    """Register a function that writes a constraint for ``target``.

    Parameters
    ----------
    constraint
        The class of the side constraint.
    target
        What the function writes for. ``"order_arcs"``: ``f(problem, constraint)`` yields ``(before, after)`` operator
        ids. ``"step_rule"``: ``f(problem, constraint)`` returns ``rule(done, op)``, which tells whether ``op`` may run
        after exactly the operators in ``done``. A handle, such as ``"on"``: ``f(formulation, model, constraint)`` adds
        rows to the model of every formulation that has the handle. The name of a formulation: the same for it alone.
        The handles are ``on(op, device)``, ``start(op)``, ``end(op)``, ``before(a, b)``, ``position(op)``,
        ``batch(op, device)``, ``stage(op)``, ``share(op, device)``, ``uses(device)`` and ``held(device)``.

    Notes
    -----
    Subclasses inherit it unless they override ``violations``: then they have another meaning and need an expression of
    their own.

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
    """

    def register(function: ExpressionT) -> ExpressionT:
        _EXPRESSIONS[constraint, target] = function
        return function

    return register


def expression(constraint: type[Constraint], target: str) -> Expression | None:
    """The function registered for a constraint type or its nearest base with the same meaning; None without one."""
    for base in constraint.__mro__:
        if (base, target) in _EXPRESSIONS and shares_meaning(constraint, base):
            return _EXPRESSIONS[base, target]
    return None


def expressible(constraint: type[Constraint], supports: Iterable[str]) -> bool:
    """Whether any of the targets understands the constraint."""
    return any(expression(constraint, target) is not None for target in supports)


@express(Precede, "order_arcs")
def _precede_as_arc(_problem: Problem[Any, Any], constraint: Precede) -> Iterable[tuple[str, str]]:
    return ((constraint.before, constraint.after),)


def _devices(model: Any) -> list[str]:
    return [device.name for device in model.problem.cluster.devices]


@express(Pin, "on")
def _pin(_formulation: Any, model: Any, constraint: Pin) -> None:
    """The operator runs on its device and on no other one."""
    for device in _devices(model):
        model.add(model.on(constraint.op, device) == int(device == constraint.device))


@express(Forbid, "on")
def _forbid(_formulation: Any, model: Any, constraint: Forbid) -> None:
    """The operator does not run on the device."""
    model.add(model.on(constraint.op, constraint.device) == 0)


@express(Colocate, "on")
def colocate(_formulation: Any, model: Any, constraint: Colocate) -> None:
    """Every device runs all of the operators or none."""
    for device in _devices(model):
        for other in constraint.ops[1:]:
            model.add(model.on(constraint.ops[0], device) == model.on(other, device))


@express(Separate, "on")
def _separate(_formulation: Any, model: Any, constraint: Separate) -> None:
    """No device runs two of the operators."""
    for device in _devices(model):
        model.add(sum(model.on(op, device) for op in dict.fromkeys(constraint.ops)) <= 1)


@express(MaxDevices, "uses")
def _max_devices(_formulation: Any, model: Any, constraint: MaxDevices) -> None:
    """The number of devices in use is limited."""
    model.add(sum(model.uses(device) for device in _devices(model)) <= constraint.count)
