"""A side constraint of batched mapping: how many inputs of an operator run on a device."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, Protocol, runtime_checkable

from pydantic import Field

from opweave.problems.constraints import Constraint
from opweave.problems.solution import Violation
from opweave.problems.spec import Name

if TYPE_CHECKING:
    from opweave.problems.problem import Problem


@runtime_checkable
class SharesInputs(Protocol):
    """A solution that says how many inputs of every operator run on every device."""

    def inputs_by_device(self) -> dict[tuple[str, str], int]:
        """Inputs by operator and device."""
        ...


@runtime_checkable
class SplitsBatch(Protocol):
    """A problem that runs a batch of inputs."""

    batch: int


class Share(Constraint):
    """Exactly ``inputs`` inputs of ``op`` run on ``device``; 0 forbids the device."""

    op: Name
    device: Name
    inputs: Annotated[int, Field(ge=0)]

    def check(self, problem: Problem[Any, Any]) -> None:
        self._need_operators(problem, self.op)
        self._need_devices(problem, self.device)
        if not issubclass(problem.solution_type, SharesInputs) or not isinstance(problem, SplitsBatch):
            raise ValueError(f"Share concerns parts of a batch, and {type(problem).__name__} does not split batches")
        if self.inputs > problem.batch:
            raise ValueError(
                f"Share asks for {self.inputs:,} inputs of {self.op!r} on {self.device!r}, but the batch is "
                f"{problem.batch:,}"
            )

    def violations(self, problem: Problem[Any, Any], solution: SharesInputs) -> Iterable[Violation]:
        there = solution.inputs_by_device().get((self.op, self.device), 0)
        if there != self.inputs:
            yield self.broken(
                f"{self.op!r} must run {self.inputs} inputs on {self.device!r} but runs {there}",
                excess=float(abs(there - self.inputs)),
            )
