"""The referee of batched mapping: by hand, rule by rule, broken in every way, and in relation to placement."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

import opweave as ow
from opweave.formulations.batched_mapping.instance import shortage, unsplit, whole
from opweave.problems.measures import busy_seconds, critical_rows, moved_bytes
from tests.oracles.batched_mapping import best_batched_mapping
from tests.oracles.placement import best_placement
from tests.strategies.batched_mapping import batched_mappings, planned_batched_mappings

GRAPH = ow.OpGraph(
    tensors=[ow.Tensor(id=name, bytes=size) for name, size in {"x": 3, "y": 4, "z": 2}.items()],
    parameters=[ow.Parameter(id="w", bytes=10)],
    operators=[
        ow.Operator(id="p", inputs=["x"], outputs=["y"], parameters=["w"]),
        ow.Operator(id="q", inputs=["y"], outputs=["z"], parameters=["w"], workspace_bytes=1),
    ],
)
TABLE = {
    "p": {"a": {1: 1.0, 2: 1.5, 3: 2.0}, "b": {1: 2.0, 2: 4.0}},
    "q": {"a": {1: 3.0, 2: 4.0}, "b": {1: 1.0, 2: 2.0}},
}


def two(**fields):
    """Two operators on two devices, two bytes a second, half a second of latency."""
    cluster = ow.Cluster(devices=[ow.Device(name="a"), ow.Device(name="b")], bandwidth=[[0, 2], [2, 0]], latency=0.5)
    return ow.BatchedMapping(
        **{"graph": GRAPH, "cluster": cluster, "costs": ow.Costs.from_table(TABLE), "batch": 3, **fields}
    )


def batch(operator, device, inputs, start, end):
    return ow.Batch(operator=operator, device=device, inputs=inputs, start=start, end=end)


#   a   p{0,1} 0-1.5            q{0} 1.5-4.5
#   b   p{2} 0-2     q{1,2}: 2 is there at 2, 1 comes from a: 1.5 + 0.5 + 4 / 2 = 4    4-6
PLAN = ow.BatchedSchedule(
    batches=[
        batch("p", "a", [0, 1], 0, 1.5),
        batch("p", "b", [2], 0, 2),
        batch("q", "a", [0], 1.5, 4.5),
        batch("q", "b", [1, 2], 4, 6),
    ]
)


def test_by_hand():
    judged = two().evaluate(PLAN)
    assert judged.violations == ()
    assert judged.objective == 6.0
    details = judged.details
    assert details.inputs_per_second == 0.5
    assert busy_seconds(judged.timeline)[:2].tolist() == [4.5, 4.0]
    assert moved_bytes(judged.timeline)[2:] == (4, 0, 0, 4)
    # per input: p reads 3 and writes 4; q reads 4, writes 2, works with 1; w once on each device
    assert details.memory_bytes == {"a": 10 + 2 * 7 + 7, "b": 10 + 7 + 2 * 7}
    assert [wait for _, wait in critical_rows(judged.timeline)] == ["nothing", "data", "data"]


def test_batches_wait_only_for_their_own_inputs():
    """q on b with input 2 alone need not wait for p on a: no data flows between them."""
    plan = ow.BatchedSchedule(
        batches=[
            batch("p", "a", [0, 1], 0, 1.5),
            batch("p", "b", [2], 0, 2),
            batch("q", "a", [0, 1], 1.5, 5.5),
            batch("q", "b", [2], 2, 3),
        ]
    )
    assert two().evaluate(plan).objective == 5.5
    assert two().evaluate(plan).feasible


@pytest.mark.parametrize(("transfers", "seconds"), [("delay", 4.5), ("delay_per_input", 2.5)])
def test_what_travels_together(transfers, seconds):
    plan = ow.BatchedSchedule(
        batches=[
            batch("p", "a", [0, 1, 2], 0, 2),
            batch("q", "a", [0], 2, 5),
            batch("q", "b", [1, 2], 2 + seconds, 4 + seconds),
        ]
    )
    problem = two(transfers=transfers)
    assert problem.evaluate(plan).feasible
    sooner = ow.BatchedSchedule(batches=[*plan.batches[:2], batch("q", "b", [1, 2], 1.9 + seconds, 3.9 + seconds)])
    assert rules(problem, sooner) == {"precedence"}


@pytest.mark.parametrize(
    ("memory", "held"), [("buffers", 10 + 2 * 7 + 7), ("additive", 10 + 2 * 4 + 3), ("parameters", 10)]
)
def test_memory(memory, held):
    assert two(memory=memory).evaluate(PLAN).details.memory_bytes["a"] == held
    cap = ow.MemoryCap(device="a", bytes=held)
    assert two(memory=memory, constraints=[cap]).evaluate(PLAN).feasible
    cap = ow.MemoryCap(device="a", bytes=held - 1)
    assert rules(two(memory=memory, constraints=[cap]), PLAN) == {"memory_cap"}


def rules(problem, plan):
    return {violation.rule for violation in problem.evaluate(plan).violations}


def changed(index, **fields):
    batches = list(PLAN.batches)
    batches[index] = batches[index].model_copy(update=fields)
    return ow.BatchedSchedule(batches=batches)


BROKEN = {
    "early": (changed(3, start=3.9, end=5.9), "precedence"),
    "overlap": (changed(2, start=1.4, end=4.4), "overlap"),
    "too short": (changed(3, end=5.5), "duration"),
    "lost input": (changed(3, inputs=(1,)), "missing"),
    "input twice": (changed(1, inputs=(1,)), "twice"),
    "no such input": (changed(1, inputs=(3,)), "unknown"),
    "no such device": (changed(1, device="c"), "unknown"),
    "no such operator": (changed(1, operator="r"), "unknown"),
    "size": (ow.BatchedSchedule(batches=[*PLAN.batches[:2], batch("q", "a", [0, 1, 2], 2, 6)]), "size"),
    "two batches": (ow.BatchedSchedule(batches=[*PLAN.batches, batch("p", "b", [0], 9, 11)]), "batch"),
    "nothing": (ow.BatchedSchedule(batches=[]), "missing"),
}


@pytest.mark.parametrize(("plan", "rule"), BROKEN.values(), ids=BROKEN.keys())
def test_broken_plans(plan, rule):
    assert rule in rules(two(), plan)


@pytest.mark.parametrize("number", [2**53, 2**70])
def test_numbers_of_inputs_beyond_all_counting(number):
    try:
        plan = ow.BatchedSchedule(batches=[*PLAN.batches[:-1], batch("q", "b", [number], 4, 6)])
    except ow.InvalidInputError:
        return  # refused as data
    assert "unknown" in rules(two(), plan)


def test_listed_transfers_must_be_right():
    sent = ow.results.BatchTransfer(tensor="y", consumer="q", source="a", target="b", inputs=[1], start=1.5, end=4)
    assert two().evaluate(PLAN.model_copy(update={"transfers": (sent,)})).feasible
    late = sent.model_copy(update={"start": 2.0, "end": 4.5})
    assert rules(two(), PLAN.model_copy(update={"transfers": (late,)})) == {"precedence"}
    for wrong in ({"inputs": (2,)}, {"end": 5.0}, {"source": "b", "target": "a"}):
        assert "transfer" in rules(two(), PLAN.model_copy(update={"transfers": (sent.model_copy(update=wrong),)}))


def test_missing_link():
    cluster = ow.Cluster(devices=[ow.Device(name="a"), ow.Device(name="b")], bandwidth=[[0, 0], [2, 0]])
    assert rules(two(cluster=cluster), PLAN) == {"no_link"}


@pytest.mark.parametrize(
    ("constraint", "obeyed"),
    [
        (ow.Share(op="p", device="a", inputs=2), True),
        (ow.Share(op="p", device="a", inputs=1), False),
        (ow.Pin(op="p", device="a"), False),
        (ow.Forbid(op="p", device="a"), False),
        (ow.Colocate(ops=["p", "q"]), True),
        (ow.Separate(ops=["p", "q"]), False),
        (ow.MaxDevices(count=1), False),
        (ow.Precede(before="p", after="q"), False),  # q's first batch starts before p's last one ends
    ],
)
def test_constraints(constraint, obeyed):
    assert two(constraints=[constraint]).evaluate(PLAN).feasible is obeyed


def test_batch_sizes_that_cannot_be():
    """Sizes that do not add up have no plan; an operator without any size that fits is refused."""
    short = {"p": {"a": {2: 1.0}, "b": {1: 1.0}}, "q": {"a": {3: 1.0}}}
    found = ow.solve(two(batch=5, costs=ow.Costs.from_table(short)))
    assert (found.status, found.reason) == ("infeasible", f"operator 'p' cannot run 5 inputs: {RULES} 3 at most")
    with pytest.raises(ValidationError, match="'p' has no known time"):
        two(batch=1, costs=ow.Costs.from_table({"p": {"a": {2: 1.0}}, "q": {"a": {1: 1.0}}}))


def test_a_share_of_more_than_the_batch():
    with pytest.raises(ValidationError, match="Share asks for 4 inputs of 'p' on 'a', but the batch is 3"):
        two(constraints=[ow.Share(op="p", device="a", inputs=4)])


RULES = "its times and side constraints allow"
CONTRADICTIONS = {
    "two shares": ([("p", "a", 1), ("p", "a", 2)], f"'p' cannot run 3 inputs: {RULES} none"),
    "too many": ([("p", "a", 2), ("p", "b", 2)], f"'p' cannot run 3 inputs: {RULES} none"),
    "too few": ([("p", "a", 1), ("p", "b", 1)], f"'p' cannot run 3 inputs: {RULES} 2 at most"),
    "forbidden": ([("p", "a", 2), ow.Forbid(op="p", device="a")], f"{RULES} none"),
    "pinned": ([("p", "a", 1), ow.Pin(op="p", device="b")], f"{RULES} none"),
    "size": ([("q", "a", 3)], f"'q' cannot run 3 inputs: {RULES} none"),
    "nowhere": ([("p", "a", 0), ow.Pin(op="p", device="a")], "'p' has no device left to run on: pinned to 'a'; forb"),
    "pins": ([ow.Pin(op="p", device=name) for name in "ab"], "'p' has no device left to run on: pinned to 'a', 'b'"),
}


@pytest.mark.parametrize(("rules", "words"), CONTRADICTIONS.values(), ids=CONTRADICTIONS.keys())
def test_contradictions_name_the_operator(rules, words):
    shares = [
        ow.Share(op=rule[0], device=rule[1], inputs=rule[2]) if isinstance(rule, tuple) else rule for rule in rules
    ]
    problem = two(constraints=shares)
    reason = shortage(problem)
    assert words in reason
    for solver in ("auto", "highs"):
        result = ow.solve(problem, solver=solver)
        assert (result.status, result.bound) == (ow.Status.INFEASIBLE, None)
        assert "'p'" in result.reason or "'q'" in result.reason
    assert ow.solve(problem).reason == reason


@pytest.mark.parametrize("solver", ["local", "auto"])
def test_nothing_to_run_takes_no_time(solver):
    nothing = two(graph=ow.OpGraph(tensors=[], operators=[]), costs=ow.Costs(operators=(), devices=("a",), table=()))
    result = ow.solve(nothing, solver=solver)
    assert (result.status, result.objective, result.bound) == (ow.Status.OPTIMAL, 0.0, 0.0)


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(planned_batched_mappings())
def test_valid_plans_are_accepted_and_renumbering_inputs_changes_nothing(planned):
    problem, plan = planned
    judged = problem.evaluate(plan)
    assert judged.feasible, judged.violations
    turned = [
        each.model_copy(update={"inputs": tuple((number + 1) % problem.batch for number in each.inputs)})
        for each in plan.batches
    ]
    assert problem.evaluate(ow.BatchedSchedule(batches=turned)).objective == judged.objective


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(planned_batched_mappings(), st.data())
def test_any_batch_much_earlier_breaks_a_rule(planned, data):
    """In a plan where everything is at its earliest, nothing that starts after 0 can start much sooner by itself."""
    problem, plan = planned
    movable = [index for index, each in enumerate(plan.batches) if each.start > 0.1 and each.end > each.start]
    if not movable:
        return
    index = data.draw(st.sampled_from(movable))
    each = plan.batches[index]
    moved = each.model_copy(update={"start": 0.0, "end": each.end - each.start})
    batches = [*plan.batches[:index], moved, *plan.batches[index + 1 :]]
    judged = problem.evaluate(ow.BatchedSchedule(batches=batches))
    longest = max(other.end for other in batches)
    assert not judged.feasible or judged.objective == longest


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(batched_mappings(3, 3, 1))
def test_one_input_is_placement_with_delay(problem):
    """The same optimum and the same judgement of every schedule, whatever memory counts."""
    if any(isinstance(constraint, ow.Share) for constraint in problem.constraints):
        return
    same = unsplit(problem)
    assert same is not None
    best, schedule = best_placement(same)
    assert best_batched_mapping(problem)[0] == (best if best is None else pytest.approx(best))
    if schedule is not None:
        lifted = problem.evaluate(whole(problem, schedule))
        assert lifted.feasible, lifted.violations
        assert lifted.objective == pytest.approx(same.evaluate(schedule).objective)
