"""Side constraints and quantities of devices, written with handles: the same for every formulation that has them."""

from __future__ import annotations

import pytest

import opweave as ow
from opweave.formulations.formulation import BuildContext, find_formulation, formulation_names, load_formulations
from opweave.formulations.modeling.intervals import IntervalModel
from opweave.formulations.modeling.linear import Linear
from opweave.formulations.modeling.model import LinearModel
from opweave.formulations.modeling.pyomo import PyomoFormulation
from opweave.formulations.placement.moirai import Moirai
from tests.oracles.placement import best_placement
from tests.tiny import CLUSTER, PROBLEMS

load_formulations(ow.Pipeline.kind)
DEVICES = [device.name for device in CLUSTER.devices]


class Places(LinearModel):
    """A user's model whose only handle is ``on``."""

    def on(self, op: str, device: str) -> Linear:
        return Linear.of(self.column("x", (op, device)))


class Anywhere(find_formulation(ow.Pipeline, "flow")):  # type: ignore[misc]
    name = "anywhere"
    model_type = Places
    supports = ("on",)


@pytest.mark.parametrize(
    ("constraint", "allowed"),
    [
        (ow.Pin(op="a", device="d"), lambda a, b: a == {"d"}),
        (ow.Forbid(op="a", device="d"), lambda a, b: "d" not in a),
        (ow.Colocate(ops=("a", "b")), lambda a, b: a == b),
        (ow.Separate(ops=("a", "b")), lambda a, b: not a & b),
    ],
)
def test_a_model_with_on_understands_the_constraints_on_devices(constraint, allowed) -> None:
    """All sets of devices for two operators, each judged by the rows and by the meaning."""
    model = Places()
    problem = PROBLEMS["pipeline"].model_copy(update={"constraints": (constraint,)})
    model.binaries("x", [(op, device) for op in "ab" for device in DEVICES])
    Anywhere().add_constraints(model, problem)
    subsets = [set(), {"d"}, {"e"}, {"d", "e"}]
    for a in subsets:
        for b in subsets:
            values = [float(device in there) for there in (a, b) for device in DEVICES]
            held = all(row.low <= Linear(0, row.terms).at(values) <= row.high for row in model.added)
            assert held == allowed(a, b), (a, b)


def built(kind: str):
    """Every model of a problem, with the values of a known solution."""
    problem = PROBLEMS[kind]
    load_formulations(kind)
    for takes in (LinearModel, IntervalModel):
        for name in formulation_names(kind, takes):
            made = find_formulation(type(problem), name, takes)
            # papers' programs have the handles that they need
            if made.mode == problem.mode and not issubclass(made, PyomoFormulation):
                written = made(BuildContext(extended=True))
                yield written, written.build(problem)


def test_held_and_uses_say_what_the_referee_says() -> None:
    problem = PROBLEMS["placement"]
    for solver in ["auto", *(row.name for row in ow.list_solvers(problem) if row.baseline)]:
        solution = ow.solve(problem, solver=solver).solution
        if solution is None:
            continue
        memory = problem.memory_by_device(solution)
        used = {device for places in solution.devices_by_operator().values() for device in places}
        for made, model in built("placement"):
            told = {device: (model.held(device), model.uses(device)) for device in DEVICES}
            values = made.start(model, solution)
            for device, (held, uses) in told.items():
                assert held.at(values) == memory[device], made.name
                assert uses.at(values) == (device in used), made.name


@pytest.mark.parametrize(
    ("kind", "engine"), [("placement", "highs"), ("placement", "cp-sat"), ("batched_mapping", "highs")]
)
def test_uses_counts_in_both_directions(kind: str, engine: str) -> None:
    """At least two devices, where one would do: the columns of devices in use cannot be 1 without an operator."""
    problem = PROBLEMS[kind]

    def two(model, problem) -> None:
        model.add(sum(model.uses(device) for device in DEVICES) >= 2)

    result = ow.solve(problem, solver=engine, extend=two)
    assert len(set().union(*result.solution.devices_by_operator().values())) == 2


@pytest.mark.parametrize(
    ("kind", "engine"), [("placement", "highs"), ("placement", "cp-sat"), ("batched_mapping", "highs")]
)
def test_a_row_about_held_bytes_means_the_same_as_a_memory_cap(kind: str, engine: str) -> None:
    problem = PROBLEMS[kind]
    most = problem.memory_by_device(ow.solve(problem).solution)
    for device in DEVICES:
        limit = max(0, most[device] - 1)
        capped = problem.model_copy(update={"constraints": (ow.MemoryCap(device=device, bytes=limit),)})
        expected = ow.solve(capped, solver="highs")

        def hold(model, problem, device=device, limit=limit) -> None:
            model.add(model.held(device) <= limit)

        result = ow.solve(problem, solver=engine, extend=hold)
        assert (result.status, result.objective) == (expected.status, pytest.approx(expected.objective))


def test_an_operator_may_have_the_name_of_a_parameter_that_others_share() -> None:
    """The shared 'a' has 8 bytes, the operator 'a' itself 1: all three fit on one device of 9 bytes."""
    graph = ow.OpGraph(
        tensors=[ow.Tensor(id="t", bytes=1)],
        parameters=[ow.Parameter(id="a", bytes=8)],
        operators=[
            ow.Operator(id="a", outputs=["t"]),
            ow.Operator(id="b", inputs=["t"], parameters=["a"]),
            ow.Operator(id="c", inputs=["t"], parameters=["a"]),
        ],
    )
    devices = [ow.Device(name=name, memory_bytes=9) for name in "de"]
    problem = ow.Placement(
        graph=graph,
        cluster=ow.Cluster(devices=devices, bandwidth=[[0, 1e-3], [1e-3, 0]]),
        costs=ow.Costs.from_table({op: {"d": 1.0, "e": 1.0} for op in "abc"}),
        transfers="one_port_edge",
    )
    result = ow.solve(problem, solver="highs", formulation=Moirai.name, options={"head_start": False})
    assert (result.status, result.objective) == (ow.Status.OPTIMAL, best_placement(problem)[0])
