"""What a requirement is: one thing that a problem asks of its solutions, which can be left out or relaxed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple

from pydantic import BeforeValidator, SerializeAsAny

from opweave.problems.constraints import means
from opweave.problems.problem import Problem
from opweave.problems.solution import Solution
from opweave.problems.spec import Tagged, read_tagged
from opweave.problems.words import counted
from opweave.solvers.questions.draft import Draft
from opweave.solvers.questions.relaxation import OPWEAVES

AnyProblemType = Problem[Any, Any]


class Change(NamedTuple):
    """A way to relax a requirement that has no amount.

    Attributes
    ----------
    words
        What is changed, such as ``"without Pin('head', 'tpu')"``.
    draft
        The problem with this change.
    """

    words: str
    draft: Draft


class Requirement(Tagged, ABC):
    """One thing that a problem asks of its solutions."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The requirement in the problem's words, such as ``"Pin('head', 'tpu')"``."""

    @abstractmethod
    def drop(self, draft: Draft) -> None:
        """Leave the requirement out."""

    @property
    def left_out(self) -> str | None:
        """The words for leaving it out; None if that is no change that anyone can make."""
        return f"without {self.name}"

    def changes(self, problem: AnyProblemType) -> Iterator[Change]:
        """The ways to relax it that have no amount."""
        if self.left_out is not None:
            draft = Draft(problem)
            self.drop(draft)
            yield Change(self.left_out, draft)


class Measured(Requirement):
    """A requirement with an amount, which can be relaxed by a whole number."""

    @property
    @abstractmethod
    def amount(self) -> int:
        """Bytes or a count."""

    def monotone(self, problem: AnyProblemType) -> bool:
        """Whether a larger amount never asks more; a rule of a user's own may depend on anything."""
        ruled = getattr(problem, "dimension", None) == "rule"  # the rule cuts by the memory there is
        return not ruled and all(means(each, *OPWEAVES) for each in problem.constraints)

    @property
    def spared(self) -> str | None:
        """The device whose bytes it limits; None if it limits something else."""
        return None

    @abstractmethod
    def relax(self, draft: Draft, more: int) -> None:
        """Relax the requirement by ``more``."""

    @abstractmethod
    def excess(self, problem: AnyProblemType, plan: Solution) -> int:
        """How much more than the requirement allows a plan takes; ``problem`` is without the requirement."""

    @abstractmethod
    def relaxed(self, more: int) -> str:
        """The relaxation in words, such as ``"288 MiB more on 'phone'"``."""


def _read_requirement(data: object) -> object:
    return read_tagged(Requirement, data)  # type: ignore[type-abstract]  # only its registered subclasses are built


AnyRequirement = Annotated[SerializeAsAny[Requirement], BeforeValidator(_read_requirement)]
"""Any requirement, told apart in JSON by its ``kind``."""


def sized(size: int) -> str:
    """Write bytes exactly, in the largest unit that needs no fraction.

    Examples
    --------
    >>> sized(288 * 2**20), sized(1500), sized(1)
    ('288 MiB', '1,500 bytes', '1 byte')
    """
    for power, unit in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size and size % 2**power == 0:
            return f"{size >> power:,} {unit}"
    return counted(size, "byte")
