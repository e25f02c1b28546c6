"""Mistakes that people make, each with the words that help: what was wrong, where, and what to write instead."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import opweave as ow
from opweave.__main__ import main

GRAPH = ow.OpGraph(
    operators=[
        ow.Operator(id="left", outputs=["a"], flops=1e9),
        ow.Operator(id="right", inputs=["a"], outputs=["b"], flops=1e9),
    ],
    tensors=[ow.Tensor(id="a", bytes=4000), ow.Tensor(id="b", bytes=4000)],
    outputs=["b"],
)
GPU = {"memory_bytes": "1 GB", "flops_per_second": "1 TFLOP/s", "memory_bandwidth": "10 GB/s"}
PAIR = ow.Cluster(devices=[ow.Device(name="gpu 0", **GPU), ow.Device(name="gpu 1", **GPU)], shared="1 GB/s")
COSTS = ow.Costs.roofline(GRAPH, PAIR)
BARE = ow.Cluster(devices=[ow.Device(name="x")])
ORDER = ow.MemoryOrdering(GRAPH)
PLACED = ow.Placement(GRAPH, PAIR, COSTS)
LIFETIMES = [ow.Lifetime(id="t", bytes=8, begin=0, end=2)]
LAYOUT = ow.MemoryLayout(lifetimes=LIFETIMES)


class Unwritten(ow.Constraint):
    """A rule without violations."""


class GivesText(ow.Constraint):
    def violations(self, problem, solution):
        return "text"


class Raises(ow.Constraint):
    def violations(self, problem, solution):
        return solution.nothing


class NotHere(ow.Constraint):
    def violations(self, problem, solution):
        if solution.device["left"] == "gpu 0":
            yield self.broken("left is on gpu 0")


class Unsolved(ow.extend.Problem):
    solution_type = ow.Ordering
    unit = "things"

    def measure(self, solution, timeline):
        return 1


def written(folder: Path, name: str, content: str) -> Path:
    """A file with that content."""
    path = folder / name
    path.write_text(content)
    return path


def saved(folder: Path) -> Path:
    """The file of a result."""
    return ow.solve(ORDER).save(folder / "result.json")


def config(folder: Path) -> Path:
    """The configuration of a small language model."""
    sizes = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    return written(folder, "config.json", json.dumps({"model_type": "llama", "vocab_size": 100, **sizes}))


def timed(**table: dict[str, float | str]) -> ow.Placement:
    return placed(costs=ow.Costs.from_table(table))


def placed(**fields: object) -> ow.Placement:
    return ow.Placement(GRAPH, PAIR, fields.pop("costs", COSTS), **fields)


def with_row(row: Callable[[object], object]) -> object:
    return ow.solve(PLACED, solver="highs", time_limit=5, extend=lambda model, problem: row(model))


MISTAKES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a file is solved": (lambda _: ow.solve("model.onnx"), "graph = ow.load('model.onnx')"),
    "a graph is solved": (lambda _: ow.solve(GRAPH), "ow.solve(ow.MemoryOrdering(graph))"),
    "a file is a graph": (lambda _: ow.MemoryOrdering(graph="m.onnx"), "graph=ow.load('m.onnx')"),
    "no such file": (lambda _: ow.load("nope.onnx"), "there is no such file"),
    "a field misspelt": (lambda _: ow.MemoryOrdering(GRAPH, objektive="peak"), "did you mean 'objective'?"),
    "a word misspelt": (lambda _: ow.MemoryOrdering(GRAPH, objective="peek"), "'peak' or 'total'"),
    "a solver misspelt": (lambda _: ow.solve(PLACED, solver="hihgs"), "did you mean 'highs'?"),
    "a solver of another problem": (lambda _: ow.solve(PLACED, solver="btsearch"), "it solves MemoryOrdering"),
    "a function as a solver": (lambda _: ow.solve(ORDER, solver=lambda p, r: None), "@ow.solver_for"),
    "an operator misspelt": (lambda _: placed(constraints=[ow.Pin("lefft", "gpu 0")]), "did you mean 'left'?"),
    "a device misspelt": (lambda _: placed(constraints=[ow.Pin("left", "gpu O")]), "the cluster has 'gpu 0', 'gpu 1'"),
    "no list": (lambda _: placed(constraints=ow.Pin("left", "gpu 0")), "a list is needed here; write [Pin"),
    "a class": (lambda _: placed(constraints=[ow.Pin]), "Pin is a class; write an instance of it: Pin(...)"),
    "bits": (lambda _: ow.Device(name="x", memory_bytes="8 Gb"), "write '1 GB' for the bits, or '8 GB' for the bytes"),
    "no unit": (lambda _: ow.Device(name="x", memory_bytes="8 gigs"), "write 8_000_000_000, '8 GB' or '8 GiB'"),
    "one row": (lambda _: ow.Cluster(devices=PAIR.devices, bandwidth=[[0, 1]]), "bandwidth has 1 row"),
    "no links": (lambda _: ow.Cluster(devices=PAIR.devices), "bandwidth, rates or shared"),
    "costs of another": (lambda _: timed(left={"cuda": 1.0}), "device 'cuda'; the cluster has 'gpu 0', 'gpu 1'"),
    "a time missing": (lambda _: timed(left={"gpu 0": 1.0, "gpu 1": 1.0}), "operator 'right' has no known time"),
    "no speed": (lambda _: ow.Costs.roofline(GRAPH, BARE), "device 'x' has no flops_per_second"),
    "a positional limit": (lambda _: ow.solve(ORDER, 20), "takes its options by name, such as solver=..."),
    "an argument misspelt": (lambda _: ow.solve(ORDER, timelimit=20), "did you mean 'time_limit'?"),
    "an option misspelt": (lambda _: ow.solve(ORDER, solver="btsearch", options={"plane": 1}), "did you mean 'plain'?"),
    "no violations": (lambda _: Unwritten(), "Unwritten is not complete; write its violations()"),
    "violations give text": (lambda _: ow.solve(placed(constraints=[GivesText()])), "yield self.broken(message)"),
    "violations raise": (lambda _: ow.solve(placed(constraints=[Raises()])), "Raises.violations raised AttributeError"),
    "a rule that heft lacks": (lambda _: ow.solve(placed(constraints=[NotHere()]), solver="heft"), "these can: auto"),
    "an unknown target": (lambda _: ow.express(NotHere, "modle"), "did you mean 'model'?"),
    "a rule's name": (lambda _: ow.express("Pin", "model"), "a class derived from Constraint"),
    "another problem's": (lambda _: with_row(lambda m: m.stage("left")), "no formulation of Placement has it"),
    "two comparisons": (lambda _: with_row(lambda m: 1 <= m.on("left", "gpu 0") <= 1), "as two constraints"),
    "a problem's name": (lambda _: ow.solver_for("placement"), "such as ow.Placement, and not 'placement'"),
    "solvers of a graph": (lambda _: ow.list_solvers(ow.OpGraph), "there are: "),
    "no genes": (lambda _: LAYOUT.to_pymoo(), "no encoding as genes; these problems have: "),
    "no solver yet": (lambda _: ow.solve(Unsolved(graph=GRAPH)), "@ow.solver_for(Unsolved)"),
    "no devices": (
        lambda _: ow.MemoryLayout(lifetimes=LIFETIMES, constraints=[ow.Pin("a", "b")]),
        "about devices, and",
    ),
    "a measure misspelt": (lambda _: ow.pareto(PLACED, ("makespan", "pek")), "did you mean 'peak'?"),
    "a formulation misspelt": (lambda _: PLACED.to_pyomo(formulation="moiari"), "did you mean 'moirai'?"),
    "a device's sheet misspelt": (lambda _: ow.clusters.device("rtx9090", "gpu"), "did you mean 'rtx"),
    "weights": (lambda folder: ow.load(written(folder, "m.pt", "PK")), "torch.export.save"),
    "a dictionary": (lambda _: ow.load({"a": 1}), "give a file name or a networkx.DiGraph"),
    "a text": (lambda folder: ow.load(written(folder, "a.txt", "name: x")), "opweave reads .onnx, .pt2"),
    "garbage": (lambda folder: ow.load(written(folder, "b.onnx", "garbage")), "export or download it again"),
    "no solution file": (lambda folder: ow.read_solution(ORDER, folder / "no.sol"), "there is no such file"),
    "a cluster's name": (lambda _: ow.Placement(GRAPH, "home", COSTS), "write cluster=clusters.load('home')"),
    "devices, no cluster": (lambda _: ow.Placement(GRAPH, PAIR.devices, COSTS), "write cluster=clusters.load('home')"),
    "no costs": (lambda _: ow.Placement(GRAPH, PAIR), "write costs=Costs.roofline(graph, cluster)"),
    "costs in a dictionary": (lambda _: placed(costs={"left": {"gpu 0": 1.0}}), "write costs=Costs.from_table("),
    "one rate for two": (lambda _: ow.Cluster(devices=PAIR.devices, rates=["1 GB/s"]), "give one for each device"),
    "a time of no unit": (lambda _: timed(left={"gpu 0": "3 msec"}), "a text such as '3 ms'"),
    "bytes as a rate": (lambda _: ow.Cluster(devices=PAIR.devices, shared="1 GB"), "write it as '10 Gbit/s', '5 GB/s'"),
    "devices for an order": (lambda _: ORDER.under([ow.Pin("left", "gpu 0")]), "MemoryOrdering has none"),
    "a later constraint": (lambda _: PLACED.under([ow.Pin("lefft", "gpu 0")]), "did you mean 'left'?"),
    "a later constraint alone": (lambda _: PLACED.under(ow.Pin("left", "gpu 0")), "write [Pin(...)]"),
    "another problem's plan": (lambda _: ORDER.evaluate(ow.Stages(stages=[])), "is of type Ordering, not Stages"),
    "a plan that is a list": (lambda _: ORDER.evaluate(["left", "right"]), "is of type Ordering, not list"),
    "no plan": (lambda _: ow.solve(ow.MemoryOrdering(GRAPH, limit_bytes=10)).plan, "more than the limit of 10"),
    "an axis misspelt": (lambda _: ow.sweep(PLACED, {"memroy": ["1 GB"]}), "did you mean 'memory'?"),
    "no program for CP-SAT": (lambda folder: ow.write_model(ORDER, folder / "p.pb"), "it has 'time_indexed'"),
    "a format of models": (lambda folder: ow.write_model(ORDER, folder / "p.xls"), "written as .mps, .lp, .nl"),
    "a format of pictures": (lambda folder: ow.solve(ORDER).plot(folder / "x.bmp"), "use .png, .svg or .pdf"),
    "a type of numbers": (lambda folder: ow.llm.read(config(folder), dtype="q4km"), "did you mean 'q4_k_m'?"),
    "a result as a problem": (lambda folder: ow.load_problem(saved(folder)), "use load_result or 'opweave check'"),
    "a card misspelt": (lambda _: ow.llm.rig_of("rtx9090:16GiB"), "did you mean 'rtx"),
}


@pytest.mark.parametrize("what", MISTAKES)
def test_a_mistake_is_named_with_its_cure(what: str, tmp_path: Path) -> None:
    mistake, cure = MISTAKES[what]
    with pytest.raises(ow.OpweaveError) as refused:
        mistake(tmp_path)
    said = str(refused.value)
    assert cure in said
    assert len(said) < 500  # a hint comes before lists, and lists are short


def test_names_of_solvers_are_read_in_any_case() -> None:
    assert ow.solve(PLACED, solver="HiGHS", time_limit=10).solver == "highs"


@pytest.mark.parametrize(
    ("line", "cure"),
    [
        ("ordering x.onnx --objektive peak", "--objective"),
        ("pipeline opweave/adapters/data/nasnetmobile.json.gz", "--cluster"),
        ("llm nope.gguf --devices here", "there is no such file"),
    ],
)
def test_the_command_line_says_what_to_write(
    line: str, cure: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["opweave", *line.split()])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert cure in capfd.readouterr().err
