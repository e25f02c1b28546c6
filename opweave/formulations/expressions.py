"""Expressions of side constraints: functions, registered by constraint type, that write a constraint for a target.

A *target* is a way of writing a rule. Searches over operator orders understand ``"order_arcs"`` and ``"step_rule"``;
the name of every formulation is a target of its own.

=====================  ==============================================================================================
target                 what the registered function receives and returns
=====================  ==============================================================================================
``"order_arcs"``       ``(problem, constraint) -> iterable of (before, after)`` operator ids
``"step_rule"``        ``(problem, constraint) -> rule``; ``rule(done, op)`` says whether ``op`` may run next when
                       exactly the operators in the frozenset ``done`` have run
a formulation's name   ``(formulation, model, constraint) -> None``; adds rows to the model: ``model.add(row)``, where
                       the row compares handles such as ``model.on(op, device)`` or ``model.start(op)``
=====================  ==============================================================================================

The words of the handles are the same in every formulation that has them (:mod:`opweave.formulations.modeling.handles`),
in seconds, bytes and counts; ``model.problem`` is the problem. One function can serve several targets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from opweave.problems.constraints import Constraint, Precede, shares_meaning
from opweave.problems.problem import Problem

Expression = Callable[..., Any]
ExpressionT = TypeVar("ExpressionT", bound=Expression)

_EXPRESSIONS: dict[tuple[type[Constraint], str], Expression] = {}


def express(constraint: type[Constraint], target: str) -> Callable[[ExpressionT], ExpressionT]:
    """Register a function that writes a constraint for ``target``.

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
