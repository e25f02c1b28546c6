"""``opweave plan`` for every problem: its own flags, the shared ones, and those that it does not have."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest

from opweave.adapters.cli.main import COMMANDS
from opweave.adapters.cli.options import WORDS as ALL_WORDS
from opweave.adapters.cli.options import flags_of
from opweave.adapters.costs.default_costs import batch_sizes
from opweave.adapters.load import load_problem
from opweave.adapters.report.views import view_for
from opweave.problems.cluster import Cluster, Device
from opweave.problems.graph import Operator, OpGraph, Parameter, Tensor
from opweave.problems.memory_layout.spec import MemoryLayout, Pool
from opweave.problems.memory_ordering.spec import MemoryOrdering
from tests.adapters.conftest import Run, assert_polite, write
from tests.tiny import PROBLEMS

MACHINES: dict[str, Any] = {
    "devices": [
        {"name": "a", "memory_bytes": 10_000, "flops_per_second": 1e6, "memory_bandwidth": 1e6},
        {"name": "b", "memory_bytes": 10_000, "flops_per_second": 5e5, "memory_bandwidth": 1e6},
    ],
    "shared": 1e6,
}

WORDS = [word for word in ALL_WORDS if word != "serving"]
"""That one is not asked with a model and a cluster alone: it needs token rates."""

ALONE = ("ordering", "layout")
"""Problems that need no cluster."""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Three operators in a row, of 400, 400 and 800 FLOPs; the middle one is elementwise."""
    names = ("x", "p", "q", "r")
    graph = OpGraph(
        name="row",
        tensors=[Tensor(id=name, bytes=64, shape=[1, 4, 4]) for name in names],
        parameters=[Parameter(id="w", bytes=100)],
        operators=[
            Operator(id="p", kind="Conv", inputs=["x"], outputs=["p"], flops=400, parameters=["w"]),
            Operator(id="q", kind="Relu", inputs=["p"], outputs=["q"], flops=400),
            Operator(id="r", kind="Conv", inputs=["q"], outputs=["r"], flops=800),
        ],
        outputs=["r"],
    )
    return write(tmp_path / "model.json", graph.model_dump_json())


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    return write(tmp_path / "cluster.json", MACHINES)


@pytest.fixture
def tight(tmp_path: Path) -> Path:
    """Nothing fits anywhere."""
    devices = [device | {"memory_bytes": 10} for device in MACHINES["devices"]]
    return write(tmp_path / "tight.json", MACHINES | {"devices": devices})


def on(word: str, cluster: Path) -> list[object]:
    return ["--problem", word, *(() if word in ALONE else ("--cluster", cluster))]


SETTINGS = [
    "ordering --in-place any --inputs kept --outputs excluded --limit 1KiB --objective total",
    "placement --transfers delay --memory parameters --pin q=b --costs roofline",
    "batched --batch 3 --transfers delay_per_input --memory additive --pin p=a",
    "pipeline --cuts prefix --memory parameters --compression 2.5 --channel shared --objective latency --pin r=a",
    "pipeline --min-stages 2 --max-stages 2 --inputs everywhere",
    "slicing --dimension rule --transfers paper --weights streamed --layout channels_last",
]


@pytest.mark.parametrize("line", SETTINGS)
def test_flags_reach_the_problem_and_the_plan_is_verified(
    opweave: Run, model: Path, cluster: Path, tmp_path: Path, line: str
) -> None:
    word, *flags = line.split()
    report = tmp_path / "report"
    ended = opweave("plan", model, *on(word, cluster), *flags, "--time-limit", 3, "--report", report, "--json")
    assert (ended.status, ended.err) == (0, "")
    assert json.loads(ended.out)["verified"]
    problem = json.loads((report / "problem.json").read_text())
    known = {flag.name: flag for flag in flags_of(word)}
    for name, text in zip(flags[::2], flags[1::2], strict=True):
        field, wanted = known[name].field, known[name].value(known[name].takes(text) if name != "--pin" else [text])
        assert wanted is None or problem[field] == (list(wanted) if name == "--pin" else wanted)
    (tmp_path / "result.json").write_text(ended.out)
    assert opweave("check", report / "problem.json", tmp_path / "result.json").status == 0


def test_a_flag_without_a_value(opweave: Run, model: Path, cluster: Path, tmp_path: Path) -> None:
    flags = ("--no-include-compute", "--report", tmp_path / "report")
    assert opweave("pipeline", model, "--cluster", cluster, *flags).status == 0
    problem = json.loads((tmp_path / "report" / "problem.json").read_text())
    assert (problem["include_compute"], problem["costs"]) == (False, None)


@pytest.mark.parametrize("word", WORDS)
def test_defaults_give_a_plan_that_people_can_read(opweave: Run, model: Path, cluster: Path, word: str) -> None:
    flags = on(word, cluster)
    for arguments in ((word, model, *flags[2:]), ("plan", model, *flags)):
        ended = opweave(*arguments, "--time-limit", 3)
        assert (ended.status, ended.err) == (0, "")
        assert "row" in ended.out


@pytest.mark.parametrize("word", WORDS)
def test_what_does_not_fit_is_exit_1(opweave: Run, model: Path, tight: Path, word: str) -> None:
    limit = {"ordering": ("--limit", "10"), "layout": ("--capacity", "10")}.get(word, ())
    ended = opweave("plan", model, *on(word, tight), *limit, "--time-limit", 3)
    assert (ended.status, ended.err) == (1, "")
    assert "infeasible" in ended.out


def test_a_flag_of_another_problem_is_no_option_of_this_one(opweave: Run, model: Path) -> None:
    for command in (("ordering",), ("plan", "-p", "ordering")):
        ended = opweave(*command, model, "--batch", 3)
        assert ended.status == 2
        assert "--batch" in ended.err


@pytest.mark.parametrize("word", [word for word in WORDS if word not in ALONE])
def test_problems_on_devices_need_a_cluster(opweave: Run, model: Path, word: str) -> None:
    assert_polite(opweave("plan", model, "--problem", word), "this problem needs --cluster")


@pytest.mark.parametrize(
    ("word", "flags", "sentence"),
    [
        ("batched", ["--batch", "0"], "problem batched: batch should be greater than or equal to 1"),
        ("batched", ["--memory", "none"], "memory should be 'buffers', 'additive' or 'parameters'"),
        ("pipeline", ["--compression", "0"], "compression should be greater than or equal to 0.000001, but is 0.0"),
        ("pipeline", ["--min-stages", "2", "--max-stages", "1"], "at least 2 stages are required, but at most 1"),
        ("slicing", ["--geometry", "missing.json"], "there is no such file"),
    ],
)
def test_values_that_do_not_fit_are_one_sentence(
    opweave: Run, model: Path, cluster: Path, word: str, flags: list[str], sentence: str
) -> None:
    assert_polite(opweave("plan", model, *on(word, cluster), *flags), sentence)


def test_a_geometry_file_lets_convolutions_be_cut(opweave: Run, model: Path, cluster: Path, tmp_path: Path) -> None:
    told = {name: {"kernel": 3, "padding": 1} for name in ("p", "r")}
    arguments = ["plan", model, *on("slicing", cluster), "--time-limit", 0.5]
    report = ["--report", tmp_path / "report"]
    cut = opweave(*arguments, *report, "--json", "--geometry", write(tmp_path / "geometry.json", told))
    assert cut.status == 0
    problem = load_problem(tmp_path / "report" / "problem.json").model_dump()
    assert {name: (problem["geometry"][name]["kernel"]) for name in problem["geometry"]} == {"p": 3, "r": 3}
    whole = opweave(*arguments, "--json")
    assert json.loads(cut.out)["objective"] <= json.loads(whole.out)["objective"]
    for content, sentence in (
        ([1], "geometry"),
        ({"nobody": {}}, "the geometry names operator 'nobody'"),
        ({"p": {"padding": 0, "stride": 9}}, "the geometry of operator 'p' does not fit"),
    ):
        assert_polite(opweave(*arguments, "--geometry", write(tmp_path / "bad.json", content)), sentence)


@pytest.mark.parametrize("word", ALL_WORDS)
def test_every_field_that_can_be_typed_has_a_flag_that_lists_its_words(word: str) -> None:
    fields = view_for(word).problem_type.model_fields
    if word == "layout":  # of the order that comes first, and of the pool
        fields = MemoryOrdering.model_fields | Pool.model_fields | MemoryLayout.model_fields
    else:
        untyped = set(fields) - {flag.field for flag in flags_of(word)} - {"graph", "schema_version", "order", "ties"}
        assert untyped <= {"constraints"} | ({"objective"} if word == "batched" else set())
    for flag in flags_of(word):
        assert flag.use
        assert "`" not in flag.use
        if flag.name != "--as-is" and get_origin(fields[flag.field].annotation) is Literal:
            assert all(choice in flag.use for choice in get_args(fields[flag.field].annotation)), flag.name


def test_token_rates_come_from_a_file(opweave: Run, tmp_path: Path) -> None:
    problem = PROBLEMS["serving_flow"]
    model = write(tmp_path / "model.json", problem.graph.model_dump_json())
    cluster = write(tmp_path / "cluster.json", problem.cluster.model_dump_json())
    rates = write(tmp_path / "rates.json", json.dumps({name: list(row) for name, row in problem.rates.items()}))
    arguments = ("serving", model, "--cluster", cluster, "--time-limit", 3)
    ended = opweave(*arguments, "--rates", rates, "--json")
    assert (ended.status, json.loads(ended.out)["problem"]) == (0, "serving_flow")
    assert_polite(opweave(*arguments), "this problem needs --rates: a JSON file")


@pytest.mark.parametrize("word", ALL_WORDS)
def test_the_help_of_a_problem_lists_its_own_flags_and_examples_that_can_be_read(opweave: Run, word: str) -> None:
    shown = opweave(word, "--help").out
    listed = set(re.findall(r"(?<=│ )--[a-z-]+", shown))
    own = {flag.name for flag in flags_of(word)}
    assert own <= listed
    assert not {flag.name for other in ALL_WORDS for flag in flags_of(other)} - own & listed
    for example in COMMANDS[word]["examples"]:
        assert example in shown
        assert set(re.findall(r"--[a-z-]+", example)) <= listed


def machines(*sizes: list[int] | None) -> Cluster:
    devices = [
        Device(name=f"d{index}", batch_sizes=row, flops_per_second=1e6, memory_bandwidth=1e6)
        for index, row in enumerate(sizes)
    ]
    return Cluster(devices=devices, shared=1.0)


@pytest.mark.parametrize("batch", [1, 2, 7, 16, 17, 50, 64, 4096])
def test_two_open_devices_can_share_a_batch_any_way_that_has_a_time(batch: int) -> None:
    sizes = batch_sizes(machines(None, None), batch)
    assert sizes == tuple(sorted(set(sizes)))
    assert (sizes[-1], len(sizes) <= 32) == (batch, True)
    assert all(batch - size in sizes for size in sizes if size < batch)
    if batch <= 16:
        assert sizes == tuple(range(1, batch + 1))
