"""Files by their names: models, problems, results; what is something else is told so."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given as drawn
from pydantic import ValidationError

from opweave.adapters.error_messages import MAX_SENTENCE, complaint, one_sentence, plain
from opweave.adapters.files import parse_json
from opweave.adapters.load import load, load_cluster, load_costs, load_problem, load_result, save
from opweave.problems.cluster import Cluster, Device
from opweave.problems.errors import InvalidInputError
from opweave.problems.graph import OpGraph
from opweave.problems.limits import Limits
from opweave.problems.memory_ordering.spec import MemoryOrdering, Ordering
from opweave.problems.result import Result
from tests.adapters.conftest import DATA, write
from tests.strategies.specs import memory_orderings


@drawn(memory_orderings())
def test_a_problem_comes_back_from_json(problem: MemoryOrdering) -> None:
    assert MemoryOrdering.model_validate(parse_json(problem.model_dump_json().encode(), "p")) == problem


def test_everything_comes_back_from_files(
    tmp_path: Path, graph: OpGraph, problem: MemoryOrdering, result: Result[Ordering]
) -> None:
    for ending in (".json", ".json.gz"):
        save(graph, tmp_path / f"graph{ending}")
        save(problem, tmp_path / f"problem{ending}")
        save(result, tmp_path / f"result{ending}")
        assert load(tmp_path / f"graph{ending}") == graph
        assert load_problem(tmp_path / f"problem{ending}") == problem
        assert load_result(str(tmp_path / f"result{ending}")).model_dump() == result.model_dump()
        assert isinstance(load_result(tmp_path / f"result{ending}").solution, Ordering)
    cluster = Cluster(devices=[Device(name="a"), Device(name="b")], bandwidth=[[0, 5e9], [5e9, 0]])
    save(cluster, tmp_path / "cluster.json")
    assert load_cluster(tmp_path / "cluster.json") == cluster


OPERATOR = {"id": "o", "inputs": ["x"], "outputs": ["y"]}
GRAPH = {"operators": [OPERATOR], "tensors": [{"id": "x", "bytes": 1}, {"id": "y", "bytes": 1}]}


def _graph(**changes: object) -> dict[str, object]:
    return GRAPH | changes


def _spec(**changes: object) -> dict[str, object]:
    return {"kind": "memory_ordering", "graph": GRAPH} | changes


TABLES = json.loads((DATA / "refused.json").read_text())
BAD_MODELS = TABLES["models"]
BAD_SPECS = [*TABLES["specs"], (_spec(kind="c" * 5000), "kind 'ccc")]
BAD = [(load, *row) for row in BAD_MODELS] + [(load_problem, *row) for row in BAD_SPECS]


@pytest.mark.parametrize(("read", "value", "sentence"), BAD, ids=[sentence[:40] for *_, sentence in BAD])
def test_bad_models_and_problems_are_refused(
    tmp_path: Path, read: Callable[[object], object], value: object, sentence: str
) -> None:
    path = write(tmp_path / "m.json", value)
    with pytest.raises(InvalidInputError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert sentence in str(caught.value)


def test_bad_results_are_refused(tmp_path: Path, result: Result[Ordering]) -> None:
    good = json.loads(result.model_dump_json())
    for changes, sentence in TABLES["results"]:
        with pytest.raises(InvalidInputError) as caught:
            load_result(write(tmp_path / "r.json", good | changes))
        assert sentence in str(caught.value)
    with pytest.raises(InvalidInputError, match="this is not a result; this is a model graph"):
        load_result(write(tmp_path / "g.json", _graph()))


@pytest.mark.parametrize(
    ("name", "read", "given", "sentence"),
    [
        ("", load, {}, "this is a folder"),
        ("net.onnx", load, {"dims": [("N", 1)]}, r"dims is .* it must map names"),
        ("s.json", load_problem, {"kind": "placement"}, "'memory_ordering', and 'placement' is wanted"),
        ("model.pkl", load, {}, "a pickle can run any code"),
        ("g.json", load, {"dims": {"batch": 1}}, r"dims are for \.onnx, \.tflite and \.xml files"),
        ("g.json", load, {"limits": Limits(tensors=1)}, "tensors has 2 entries, over the limit of 1"),
        ("s.json", load_problem, {"limits": Limits(tensors=1)}, "tensors has 2 entries, over the limit of 1"),
    ],
)
def test_names_and_limits(
    tmp_path: Path, name: str, read: Callable[..., object], given: dict[str, object], sentence: str
) -> None:
    for file, value in (("s.json", _spec()), ("g.json", GRAPH), ("model.pkl", "{}")):
        write(tmp_path / file, value)
    with pytest.raises(InvalidInputError, match=sentence):
        read(tmp_path / name, **given)


@pytest.mark.parametrize("reader", [load_problem, load_result, load_costs, load_cluster])
@pytest.mark.parametrize("path", [None, 3, b"net.json", "", ["net.json"]])
def test_what_is_no_file_name_is_refused(reader: Callable[[object], object], path: object) -> None:
    with pytest.raises(InvalidInputError, match="is not a file name; give a text"):
        reader(path)


def test_other_files_are_no_costs_and_no_results(
    tmp_path: Path, graph: OpGraph, problem: MemoryOrdering, result: Result[Ordering]
) -> None:
    for value, is_a in ((graph, "a model graph"), (problem, "a problem"), (result, "a result")):
        save(value, tmp_path / "other.json")
        with pytest.raises(InvalidInputError, match=f"these are not costs; this is {is_a}"):
            load_costs(tmp_path / "other.json")
    with pytest.raises(InvalidInputError, match="this is not a result"):
        load_result(write(tmp_path / "empty.json", "{}"))


def test_operators_may_be_called_like_fields(tmp_path: Path) -> None:
    table = {"nodes": {"cpu": 1.0}, "status": {"cpu": 2.0}, "kind": {"cpu": 3.0}}
    assert load_costs(write(tmp_path / "costs.json", json.dumps(table))).operators == ("nodes", "status", "kind")


@pytest.mark.parametrize(("operators", "tensors", "sentence"), TABLES["sentences"])
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
