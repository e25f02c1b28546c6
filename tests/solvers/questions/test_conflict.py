"""Conflicts: judged by brute force over the requirements of tiny instances, and by examples worked out by hand."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import opweave as ow
from opweave.solvers.questions.conflict import Conflict, conflict
from opweave.solvers.questions.draft import Draft
from opweave.solvers.questions.requirements import UnknownTimes, requirements_of
from tests.test_conformance import SUBJECTS, Subject

MOST_REQUIREMENTS = 6
"""Requirements up to which every set of them is judged by brute force."""


def with_only(problem: ow.Problem, kept: set[int]) -> ow.Problem:
    draft = Draft(problem)
    for number, item in enumerate(requirements_of(problem)):
        if number not in kept:
            item.drop(draft)
    return draft.build()


def possible(subject: Subject, problem: ow.Problem, kept: set[int]) -> bool:
    return subject.optimum(with_only(problem, kept)) is not None


def check_by_brute_force(subject: Subject, problem: ow.Problem, found: Conflict) -> None:
    """The items cannot hold together, all but one of them can, and every mend is one, and the least."""
    everything = requirements_of(problem)
    numbers = {everything.index(item) for item in found.items}
    assert not possible(subject, problem, numbers)
    assert found.irreducible
    for number, witness in zip(sorted(numbers), found.witnesses, strict=True):
        assert possible(subject, problem, numbers - {number})
        assert with_only(problem, numbers - {number}).evaluate(witness).feasible
    if len(everything) <= MOST_REQUIREMENTS:
        every = range(len(everything))
        sets = [set(some) for size in range(len(every) + 1) for some in combinations(every, size)]
        conflicts = [some for some in sets if not possible(subject, problem, some)]
        assert numbers in [some for some in conflicts if not any(other < some for other in conflicts)]
    for mend in found.mends:
        assert mend.problem.evaluate(mend.plan).feasible
        assert subject.optimum(mend.problem) is not None
        item = next(item for item in found.items if item.name == mend.requirement)
        if mend.amount is not None:
            assert mend.least
            draft = Draft(problem)
            item.relax(draft, mend.amount - 1)
            assert subject.optimum(draft.build()) is None
    mended = {mend.requirement for mend in found.mends}
    for number in numbers:
        alone = possible(subject, problem, set(range(len(everything))) - {number})
        if not isinstance(everything[number], UnknownTimes):  # its mends add one time, not all
            assert alone == (everything[number].name in mended)


@pytest.mark.parametrize("kind", SUBJECTS)
@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_conflicts_agree_with_brute_force(kind: str, data: st.DataObject) -> None:
    subject = SUBJECTS[kind]
    problem = data.draw(subject.instances)
    found = conflict(problem)
    if subject.optimum(problem) is not None:
        assert found.status == "feasible"
        assert problem.evaluate(found.plan).feasible
        return
    assert found.status == "conflict"
    check_by_brute_force(subject, problem, found)
    assert Conflict.model_validate_json(found.model_dump_json()) == found
