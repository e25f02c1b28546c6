"""A validation error becomes one sentence that names the place."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from opweave.adapters.error_messages import MAX_SENTENCE, complaint, one_sentence, plain
from opweave.problems.graph import OpGraph
from opweave.problems.memory_ordering.spec import MemoryOrdering

GOOD = {"id": "a", "bytes": 1}


@pytest.mark.parametrize(
    ("operators", "tensors", "sentence"),
    [
        ([], [GOOD, {"id": "b", "bytes": -1}], "f: tensors[1].bytes should be greater than"),
        ([], [GOOD | {"bytes": 2**53 + 1}], "but is 9007199254740993"),
        ([], [GOOD | {"bytes": True}], "tensors[0].bytes should be a whole number, but is true"),
        ([], [{"id": "a"}], "f: tensors[0].bytes is missing; add it"),
        (3, [], "f: operators should be a list, but is 3"),
        ([{"id": ""}], [], "f: operators[0].id should not be empty"),
        ([{"id": "o", "flops": float("nan")}], [], "operators[0].flops should be a finite number"),
        ([], [{"id": "a"}, {"id": "b"}, {"id": "c"}], "(and 2 more problems)"),
    ],
)
def test_the_sentence_says_what_and_where(operators: object, tensors: object, sentence: str) -> None:
    data = {"operators": operators, "tensors": tensors}
    with pytest.raises(ValidationError) as caught:
        OpGraph.model_validate(data)
    assert sentence in str(complaint(caught.value, "f", data))


def test_a_validation_inside_a_validator_names_the_whole_place() -> None:
    data = {
        "graph": {"operators": [{"id": "o"}], "tensors": []},
        "constraints": [{"kind": "precede", "before": "o", "after": 7}],
    }
    with pytest.raises(ValidationError) as caught:
        MemoryOrdering.model_validate(data)
    assert str(complaint(caught.value, "f", data)) == "f: constraints[0].after should be a text in quotes, but is 7"


def test_control_characters_cannot_reach_the_terminal() -> None:
    assert plain("a\x1b[31mb\n\u2028\ud800") == r"a\x1b[31mb\n\u2028\ud800"
    long = one_sentence(ValueError("x" * 10_000 + "\n"))
    assert len(long) <= MAX_SENTENCE
    assert "\n" not in long
