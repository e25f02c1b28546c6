import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opweave.formulations.order_arcs import ContradictionError
from opweave.formulations.placement.coarsening import coarsen, short_kind
from opweave.formulations.placement.instance import lower
from opweave.problems.cluster import Cluster, Device
from opweave.problems.constraints import Pin
from opweave.problems.costs import Costs
from opweave.problems.graph import Operator, OpGraph, Tensor
from opweave.problems.placement.spec import Placement
from opweave.solvers.placement.arrays import arrays_of
from opweave.solvers.placement.baselines import heft
from opweave.solvers.placement.plans import solution_of
from opweave.solvers.rules import NoPlanError
from tests.strategies.specs import placements


def chain(kinds, *, extra=(), constraints=(), outputs=()):
    """One operator after the other; ``extra`` lists (reader, tensor) pairs beside the chain."""
    reads = {v: [f"t{v - 1}"] if v else ["x"] for v in range(len(kinds))}
    for reader, tensor in extra:
        reads[reader].append(tensor)
    graph = OpGraph(
        tensors=[Tensor(id="x", bytes=1), *(Tensor(id=f"t{v}", bytes=2) for v in range(len(kinds)))],
        operators=[Operator(id=f"o{v}", kind=kind, inputs=reads[v], outputs=[f"t{v}"]) for v, kind in enumerate(kinds)],
        outputs=outputs,
    )
    return Placement(
        graph=graph,
        cluster=Cluster(devices=[Device(name="a"), Device(name="b")], bandwidth=[[0, 4], [4, 0]]),
        costs=Costs.from_table({f"o{v}": {"a": 1.0 + v, "b": 2.0} for v in range(len(kinds))}),
        constraints=constraints,
    )


def groups(coarsening):
    return [list(inner) for inner in coarsening.members.values()]


def test_conv_bn_relu_chain():
    coarsening = coarsen(chain(["Conv", "BatchNormalization", "Relu"] * 3))
    assert coarsening.after == 3
    assert groups(coarsening) == [["o0", "o1", "o2"], ["o3", "o4", "o5"], ["o6", "o7", "o8"]]
    fused = coarsening.reduction.problem.graph.operators[0]
    assert (fused.inputs, fused.outputs, fused.workspace_bytes) == (("x",), ("t2",), 4)
    assert coarsening.reduction.problem.known_seconds["o0..o2"] == {"a": 6.0, "b": 6.0}
    assert not coarsening.reduction.exact


def test_a_prefix_that_never_completes_is_released():
    coarsening = coarsen(chain(["conv", "bn", "pool", "relu"]), rules=[("conv", "bn", "relu"), ("pool", "relu")])
    assert groups(coarsening) == [["o0"], ["o1"], ["o2", "o3"]]


def test_the_longest_rule_wins():
    kinds = ["conv", "bn", "add", "relu"]
    assert coarsen(chain(kinds)).after == 1
    assert groups(coarsen(chain(kinds), rules=[("conv", "bn"), ("add", "*")])) == [["o0", "o1"], ["o2", "o3"]]


def test_nothing_is_fused_where_the_first_feeds_several():
    coarsening = coarsen(chain(["conv", "bn", "add", "relu"], extra=[(2, "t0")]))
    assert groups(coarsening) == [["o0"], ["o1"], ["o2", "o3"]]


def test_graph_outputs_and_constrained_operators_stay():
    assert coarsen(chain(["conv", "relu"], outputs=["t0"])).after == 2
    assert coarsen(chain(["conv", "bn", "relu"], constraints=[Pin(op="o0", device="a")])).after == 2


@pytest.mark.parametrize(
    ("kind", "short"),
    [
        ("aten.conv2d.default", "conv"),
        ("aten::convolution", "conv"),
        ("Conv2D", "conv"),
        ("DepthwiseConv2D", "conv"),
        ("aten.native_batch_norm.default", "bn"),
        ("BatchNormalization", "bn"),
        ("aten.relu_.default", "relu"),
        ("ReLU", "relu"),
        ("aten.add_.Tensor", "add"),
        ("TFOpLambda:__operators__.add", "add"),
        ("aten.hardtanh_.default", "clip"),
        ("Gemm", "linear"),
        ("Dense", "linear"),
        ("MatMul", "matmul"),
        ("LayerNormalization", "ln"),
        ("", ""),
    ],
)
def test_short_kinds(kind, short):
    assert short_kind(kind) == short


def planned(problem):
    instance = lower(problem)
    arrays = arrays_of(instance, problem)
    return solution_of(instance, arrays, heft(instance, arrays))


@settings(max_examples=40, deadline=None)
@given(placements(max_operators=8, precedes=True), st.sampled_from([(("*", "*"),), (("*", "*"), ("*", "*", "*"))]))
def test_lifted_schedules_hold_on_any_graph(problem, rules):
    """The smaller graph is built, so it has no cycle; its schedules lift to valid ones of the same length."""
    coarsening = coarsen(problem, rules=rules)
    assert sorted(op for inner in coarsening.members.values() for op in inner) == sorted(
        op.id for op in problem.graph.operators
    )
    small = coarsening.reduction.problem
    try:
        schedule = planned(small)
    except (NoPlanError, ContradictionError):
        return
    if small.evaluate(schedule).violations:
        return  # side constraints that the heuristic does not know
    judged = problem.evaluate(coarsening.reduction.lift(schedule))
    assert judged.violations == ()
    assert judged.objective == pytest.approx(small.evaluate(schedule).objective)
