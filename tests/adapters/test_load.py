"""Files by their names: models, problems, results; what is something else is told so."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given as drawn

import opweave as ow
from opweave.adapters.error_messages import MAX_SENTENCE, one_sentence
from opweave.adapters.files import parse_json
from opweave.adapters.load import load, load_cluster, load_costs, load_problem, load_result, save
from opweave.problems.cluster import Cluster, Device
from opweave.problems.errors import InvalidInputError, plain
from opweave.problems.graph import OpGraph
from opweave.problems.limits import Limits
from opweave.problems.memory_ordering.spec import MemoryOrdering, Ordering
from opweave.problems.result import Result
from tests.adapters.conftest import write
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


BAD_MODELS = [
    (_graph(tensors=[{"id": "x", "bytes": -1}, {"id": "y", "bytes": 1}]), "tensors[0].bytes should be greater than or"),
    (_graph(tensors=[{"id": "x", "bytes": True}]), "tensors[0].bytes should be a whole number, but is true"),
    (_graph(tensors=[{"id": "x", "bytes": 2**53 + 1}]), "but is 9007199254740993"),
    (_graph(tensors=[{"id": "x", "bytes": 1}]), "operator 'o' writes tensor 'y', which the graph does not have"),
    (_graph(tensors=[{"id": "x", "bytes": 1}] * 2), "tensor id 'x' is used more than once"),
    (_graph(outputs=["z"]), "the outputs name tensor 'z', which the graph does not have"),
    (_graph(colour="red"), "colour is an unknown field"),
    (_graph(schema_version=2), "schema_version"),
    ('{"operators": [{"id": "o", "flops": 1e999}], "tensors": []}', "operators[0].flops"),
    ('{"operators": [], "tensors": [{"id": "x", "bytes": NaN}]}', "holds NaN"),
    (_spec(), "this is a problem; use load_problem or 'opweave solve'"),
    ({"status": "optimal", "solver": "auto"}, "this is a result; use load_result or 'opweave check'"),
    ({"layers": []}, "neither 'operators' (opweave's own schema) nor 'nodes'"),
    (_graph(operators=3), "operators should be a list, but is 3"),
    (_graph(operators=[{"id": ""}]), "operators[0].id should not be empty"),
    (_graph(tensors=[{"id": name} for name in "xyz"]), "(and 2 more problems)"),
    ([1, 2], "is not a JSON object"),
    (_graph(operators=[{"id": "a", "inputs": ["y"], "outputs": ["x"]}, OPERATOR]), "the graph has a cycle: "),
]


BAD_SPECS = [
    (_spec(kind="c" * 5000), "kind 'ccc"),
    (_spec(kind="cooking"), "kind 'cooking' is not a problem of opweave; the problems are: "),
    (_graph(), "a problem needs a 'kind'"),
    (_spec(objective="least"), "objective should be 'peak' or 'total', but is 'least'"),
    (_spec(limit_bytes=-1), "limit_bytes should be greater than or equal to 0"),
    (_spec(graph=_graph(name=7)), "graph.name should be a text in quotes, but is 7"),
    (_spec(graph=_graph(tensors=[{"id": "x"}])), "graph.tensors[0].bytes is missing; add it"),
    (_spec(constraints=[{"kind": "precede", "before": "o", "after": "z"}]), "names operator 'z'"),
    (_spec(constraints=[{"kind": "magic"}]), "constraints[0]: unknown constraint kind 'magic'"),
    (_spec(constraints=[{"before": "o"}]), "constraints[0]: "),
    (_spec(constraints=[{"kind": "precede", "before": "o", "after": 7}]), "constraints[0].after should be a text in"),
]


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
    for changes, sentence in (
        ({"status": "splendid"}, "status should be 'optimal', 'feasible'"),
        ({"solution": {"kind": "poem"}}, "solution: unknown solution kind 'poem'"),
        ({"solution": {"kind": "ordering", "order": [1]}}, "solution.order[0] should be a text in quotes"),
        ({"verified": False}, "does not fit"),
        ({"objective": "much"}, "objective"),
    ):
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


def test_control_characters_cannot_reach_the_terminal() -> None:
    assert plain("a\x1b[31mb\n\u2028\ud800") == r"a\x1b[31mb\n\u2028\ud800"
    long = one_sentence(ValueError("x" * 10_000 + "\n"))
    assert len(long) <= MAX_SENTENCE
    assert "\n" not in long


def test_a_framework_that_is_missing_is_named_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keras", None)
    monkeypatch.delitem(sys.modules, "opweave.adapters.keras.read", raising=False)
    with pytest.raises(InvalidInputError, match="from_keras needs a package; to get it: pip install keras"):
        _ = ow.keras.from_keras
