"""A rule of one's own means the same as ``extend``, as an expression and as ``violations`` alone, for every engine."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import numpy as np
import pytest

import opweave as ow
from opweave.formulations.placement.model import PlacementModel
from opweave.solvers.engines.device_rules import Count, _cover, allowed_devices, devices_read, rows_of, simple_ways
from tests.oracles.batched_mapping import best_batched_mapping
from tests.oracles.memory_layout import best_layout
from tests.oracles.pipeline import best_pipeline
from tests.oracles.placement import best_placement
from tests.oracles.serving_flow import best_serving
from tests.test_own_constraints import best_whole_slices
from tests.tiny import CLUSTER, COSTS, GRAPH, PROBLEMS

DEVICES = [device.name for device in CLUSTER.devices]
EXACT = 1 + 1e-6


class Few(ow.Constraint):
    """At most ``most`` operators have a part on ``device``."""

    device: str
    most: int

    def violations(self, problem, solution):
        count = sum(self.device in devices for devices in solution.devices_by_operator().values())
        if count > self.most:
            yield self.broken(f"{count} operators on {self.device!r}")


class Apart(ow.Constraint):
    """No device runs both operators."""

    ops: tuple[str, str]

    def violations(self, problem, solution):
        where = solution.devices_by_operator()
        if where[self.ops[0]] & where[self.ops[1]]:
            yield self.broken("they share a device")


class NotFirst(ow.Constraint):
    """Another operator runs first."""

    op: str

    def violations(self, problem, solution):
        if solution.order[0] == self.op:
            yield self.broken("it runs first")


class NotTogether(ow.Constraint):
    """Two storages are in different pools."""

    storages: tuple[str, str]

    def violations(self, problem, solution):
        if len({problem.pool_of(solution, each) for each in self.storages}) < 2:
            yield self.broken("they share a pool")


class NotBefore(ow.Constraint):
    """``op`` starts after so many seconds."""

    op: str
    seconds: float

    def violations(self, problem, solution):
        if problem.intervals(solution)[self.op][0] < self.seconds * (1 - 1e-6):
            yield self.broken("it is too early")


def write(model, rule) -> None:
    """One function for all problems."""
    match rule:
        case Few():
            model.add(sum(model.on(op.id, rule.device) for op in model.problem.graph.operators) <= rule.most)
        case Apart():
            for device in DEVICES:
                model.add(sum(model.on(op, device) for op in rule.ops) <= 1)
        case NotFirst():
            model.add(model.position(rule.op) >= 1)
        case NotTogether():
            for pool in DEVICES:
                model.add(sum(model.in_pool(each, pool) for each in rule.storages) <= 1)
        case NotBefore():
            model.add(model.start(rule.op) >= rule.seconds)


TOLD = {kind: type(f"Told{kind.__name__}", (kind,), {}) for kind in (Few, Apart, NotFirst, NotTogether, NotBefore)}
for told in TOLD.values():
    ow.express(told, "model")(write)


def under(problem: ow.Problem, *rules: ow.Constraint) -> ow.Problem:
    return problem.model_copy(update={"constraints": rules})


def told_of(rule: ow.Constraint) -> ow.Constraint:
    return TOLD[type(rule)](**{name: getattr(rule, name) for name in type(rule).model_fields})


def assignments(problem: ow.Problem, rule: ow.Constraint) -> Iterator[tuple[ow.Pin, ...]]:
    """Every choice of one device for each operator that obeys a rule, counted by hand."""
    names = [op.id for op in problem.graph.operators]
    for chosen in itertools.product([device.name for device in problem.cluster.devices], repeat=len(names)):
        if isinstance(rule, Few):
            obeys = chosen.count(rule.device) <= rule.most
        else:
            obeys = len({chosen[names.index(op)] for op in rule.ops}) == 2
        if obeys:
            yield tuple(ow.Pin(op=op, device=device) for op, device in zip(names, chosen, strict=True))


def optimum(problem: ow.Problem, rule: ow.Constraint) -> float | None:
    """The best objective under a rule, by brute force."""
    match problem:
        case ow.MemoryOrdering():
            names = [op.id for op in problem.graph.operators]
            judged = [under(problem, rule).evaluate(ow.Ordering(order=o)) for o in itertools.permutations(names)]
            return min((each.objective for each in judged if each.feasible), default=None)
        case ow.MemoryLayout():
            return best_layout(problem.model_copy(update={"apart": (rule.storages,)}))[0]
        case ow.ServingFlow():
            return best_serving(under(problem, rule))[0]
        case ow.Slicing():
            return best_whole_slices(under(problem, rule))[0]
        case ow.BatchedMapping():
            return best_batched_mapping(under(problem, ow.Separate(ops=rule.ops)))[0]
    oracle = best_placement if isinstance(problem, ow.Placement) else best_pipeline
    found = [oracle(under(problem, *pins))[0] for pins in assignments(problem, rule)]
    return min((each for each in found if each is not None), default=None)


RULES = {
    "memory_ordering": NotFirst(op="b"),
    "placement": Few(device="d", most=1),
    "batched_mapping": Apart(ops=("a", "c")),
    "pipeline": Few(device="e", most=1),
    "slicing": Apart(ops=("b", "c")),
    "memory_layout": NotTogether(storages=("a", "b")),
    "serving_flow": Few(device="d", most=1),
}
UNPROVED = {"memory_layout"}
"""Problems with too many plans to exclude them one by one: what nobody has expressed is obeyed, but not proved."""

TRUTHS = {kind: optimum(PROBLEMS[kind], rule) for kind, rule in RULES.items()}


def check(result: ow.Result, truth: float | None) -> None:
    """The result is proved and agrees with brute force, in its bound as well."""
    if truth is None:
        assert result.status is ow.Status.INFEASIBLE, result.reason
        return
    assert result.status is ow.Status.OPTIMAL, result.reason
    assert result.objective == pytest.approx(truth)
    assert result.bound <= truth * EXACT


@pytest.mark.parametrize("solver", ["auto", "highs", "cp-sat"])
@pytest.mark.parametrize("kind", PROBLEMS)
def test_three_ways_of_writing_a_rule_mean_the_same(kind: str, solver: str) -> None:
    problem, rule, truth = PROBLEMS[kind], RULES[kind], TRUTHS[kind]
    if solver == "cp-sat":
        pytest.importorskip("ortools")
        if solver not in {row.name for row in ow.list_solvers(kind)}:
            pytest.skip("there is no constraint program")

    def extend(model, problem) -> None:
        assert model.problem is problem
        write(model, rule)

    check(ow.solve(problem, solver=solver, extend=extend), truth)
    check(ow.solve(under(problem, told_of(rule)), solver=solver), truth)
    unsaid = ow.solve(under(problem, rule), solver=solver)
    if kind in UNPROVED:
        assert unsaid.verified
        assert unsaid.bound <= truth * EXACT
        return
    check(unsaid, truth)


def drawn(seed: int, kind: type[ow.Problem]) -> tuple[ow.Problem, Few]:
    """A graph of four operators on two devices, and a rule."""
    draw = random.Random(seed)
    names = ["p", "q", "r", "s"]
    operators = [
        ow.Operator(id=op, inputs=draw.sample(["x", *names[:k]], min(2, k + 1)), outputs=[op])
        for k, op in enumerate(names)
    ]
    graph = ow.OpGraph(
        tensors=[ow.Tensor(id=name, bytes=draw.randint(1, 9)) for name in ["x", *names]], operators=operators
    )
    seconds = {op: {"d": draw.choice([1.0, 2.0, 3.0]), "e": draw.choice([1.0, 2.0, 5.0])} for op in names}
    problem = kind(graph=graph, cluster=CLUSTER, costs=ow.Costs.from_table(seconds))
    return problem, Few(device=draw.choice("de"), most=draw.randint(0, 2))


@pytest.mark.parametrize("kind", [ow.Placement, ow.Pipeline])
@pytest.mark.parametrize("seed", range(4))
def test_violations_alone_agree_with_brute_force(kind: type[ow.Problem], seed: int) -> None:
    problem, rule = drawn(seed, kind)
    truth = optimum(problem, rule)
    for solver in ("auto", "highs"):
        check(ow.solve(under(problem, rule), solver=solver), truth)


def test_the_plan_that_an_engine_alone_knows_counts_only_if_it_obeys_the_rows() -> None:
    """Rows about times and the objective; with a start that obeys them and one that does not."""
    problem = PROBLEMS["placement"]

    def late(model, problem) -> None:
        model.add(model.start("a") >= 1.5)

    free, result = ow.solve(problem), ow.solve(problem, extend=late)  # b on e; a on d from 1.5 to 2.5, then c
    assert result.status is ow.Status.OPTIMAL
    assert result.solution.start["a"] >= 1.5 - 1e-6
    assert result.objective == pytest.approx(3.5)
    assert ow.solve(problem, extend=late, start=result.solution).objective == pytest.approx(result.objective)
    with pytest.raises(ow.InvalidInputError, match="does not obey the model"):
        ow.solve(problem, extend=late, start=free.solution)

    def no_longer(model, problem) -> None:
        model.add(model.objective <= 1.5 * free.objective)
        late(model, problem)

    assert ow.solve(problem, extend=no_longer).status is ow.Status.INFEASIBLE


def test_rules_about_times_are_never_proved_by_violations_alone() -> None:
    """Engines time plans as early as possible, so the ones that wait are not seen; told of the rule, they are."""
    problem, rule = PROBLEMS["placement"], NotBefore(op="a", seconds=1.5)
    for solver in ("auto", "highs"):
        result = ow.solve(under(problem, rule), solver=solver)  # without a limit engines stop after a number of models
        assert result.status in (ow.Status.UNKNOWN, ow.Status.FEASIBLE)
        assert result.bound <= ow.solve(problem).objective * EXACT
        assert 'rules about times need an expression for a proof: express(NotBefore, "model")' in result.reason
    told = ow.solve(under(problem, told_of(rule)))
    assert (told.status, told.objective) == (ow.Status.OPTIMAL, pytest.approx(3.5))


def test_an_expression_that_allows_too_much_is_corrected_by_the_violations() -> None:
    class Loose(Few):
        """Its expression forbids nothing."""

    ow.express(Loose, "model")(lambda model, rule: None)
    problem = under(PROBLEMS["placement"], Loose(device="d", most=1))
    for solver in ("auto", "highs"):
        check(ow.solve(problem, solver=solver), TRUTHS["placement"])


def test_what_a_rule_reads_is_what_its_refusal_rests_on() -> None:
    problem = PROBLEMS["placement"]
    solution = ow.solve(under(problem, ow.Pin(op="a", device="d"), ow.Pin(op="b", device="d"))).solution

    def reads(look) -> frozenset[str] | None:
        class Rule(ow.Constraint):
            def violations(self, problem, solution):
                look(problem, solution)
                yield self.broken("always")

        return devices_read(Rule(), problem, solution)

    every = frozenset("abc")
    assert reads(lambda problem, solution: None) == frozenset()
    assert reads(lambda problem, solution: solution.devices_by_operator()["b"]) == {"b"}
    assert reads(lambda problem, solution: solution.device["b"]) == {"b"}
    assert reads(lambda problem, solution: "a" in solution.devices_by_operator()) == {"a"}
    assert reads(lambda problem, solution: list(solution.device.values())) == every
    assert reads(lambda problem, solution: problem.memory_by_device(solution)) == every
    assert reads(lambda problem, solution: isinstance(solution, ow.Schedule)) == frozenset()
    for more in (
        lambda problem, solution: solution.start["a"],
        lambda problem, solution: problem.intervals(solution),
        lambda problem, solution: hash(solution),
        lambda problem, solution: solution == 3,
        lambda problem, solution: repr(solution),
        lambda problem, solution: vars(solution),
    ):
        assert reads(more) is None
    assert devices_read(ow.Pin(op="a", device="d"), problem, solution) is None  # it does not object


@pytest.mark.parametrize("shape", [(), (3,), (2, 2, 2, 2), (3, 3, 3)])
def test_cores_forbid_what_is_refused_and_nothing_else(shape: tuple[int, ...]) -> None:
    draw = np.random.default_rng(len(shape))
    for share in (0.0, 0.3, 0.7, 1.0):
        refused = draw.random(shape) < share if shape else np.asarray(share > 0.5)
        forbidden = np.zeros(shape, dtype=bool)
        for core in _cover(refused, refused, lambda: True):
            forbidden[tuple(core.get(axis, slice(None)) for axis in range(len(shape)))] = True
        assert (forbidden == refused).all()


def test_rules_about_few_operators_are_asked_about_few_choices() -> None:
    problem, rule = PROBLEMS["batched_mapping"], Apart(ops=("a", "c"))
    like = ow.solve(problem).solution
    cores = rows_of(rule, problem, like, frozenset("a"))
    assert cores == [Count(("a", "c"), "d", 1, 1), Count(("a", "c"), "e", 1, 1)]
    few = Few(device="d", most=1)
    assert rows_of(few, PROBLEMS["placement"], ow.solve(PROBLEMS["placement"]).solution, frozenset("a")) == [
        Count(("a", "b", "c"), "d", 0, 1),
        Count(("a", "b", "c"), "e", 2, 3),
    ]
    where = allowed_devices(PROBLEMS["placement"], [rule], ow.solve(PROBLEMS["placement"]).solution, 0)
    assert where is not None
    assert where["a"] != where["c"]


def test_ways_to_obey_a_rule_are_near_the_plan_that_it_refused() -> None:
    """Few is obeyed by keeping everything off a device, Same by either device."""

    class Same(ow.Constraint):
        def violations(self, problem, solution):
            where = solution.devices_by_operator()
            if where["a"] != where["b"]:
                yield self.broken("they are apart")

    problem = PROBLEMS["placement"]
    plan = ow.solve(under(problem, ow.Pin(op="a", device="d"), ow.Pin(op="b", device="e"))).solution
    ways = list(simple_ways(problem, [Same()], plan))
    assert {type(each) for each in ways[0]} == {ow.Forbid}
    assert tuple(ow.Pin(op=op, device="e") for op in "ab") in ways
    for way in ways:
        assert not under(problem, Same()).evaluate(ow.solve(under(problem, *way)).solution).violations
    crowded = ow.solve(under(problem, *(ow.Pin(op=op, device="d") for op in "abc"))).solution
    assert tuple(ow.Forbid(op=op, device="d") for op in "abc") in list(
        simple_ways(problem, [Few(device="d", most=1)], crowded)
    )
    assert not list(simple_ways(problem, [NotBefore(op="a", seconds=1e9)], plan))


@pytest.mark.parametrize("kind", [ow.Placement, ow.Pipeline])
def test_a_rule_that_reads_many_operators_still_gets_a_plan(kind: type[ow.Problem]) -> None:
    names = [f"o{k}" for k in range(40)]
    tensors = [ow.Tensor(id=name, bytes=0) for name in ["x", *names]]
    operators = [
        ow.Operator(id=name, inputs=[before], outputs=[name])
        for before, name in zip(["x", *names], names, strict=False)
    ]
    seconds = {name: {"d": 1.0, "e": 3.0} for name in names}
    graph = ow.OpGraph(tensors=tensors, operators=operators)
    problem = kind(graph=graph, cluster=CLUSTER, costs=ow.Costs.from_table(seconds))
    result = ow.solve(under(problem, Few(device="d", most=3)), time_limit=1.0)
    assert result.solution is not None, result.reason
    assert result.verified


def test_a_formulation_without_the_handle_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = ow.Placement(graph=GRAPH, cluster=CLUSTER, costs=COSTS, transfers="one_port_edge")
    expected = ow.solve(problem, solver="highs").objective

    def use(model, problem) -> None:
        model.add(model.uses("d") + model.uses("e") >= 1)

    monkeypatch.delattr(PlacementModel, "uses")
    result = ow.solve(problem, solver="highs", extend=use, options={"head_start": False})
    assert (result.status, result.objective) == (ow.Status.OPTIMAL, pytest.approx(expected))
    assert result.bound_source == "highs (moirai)"
    with pytest.raises(ow.UnsupportedFeatureError, match="no handle 'uses'"):
        ow.solve(problem, solver="highs", formulation="disjunctive", extend=use)
    for solver in ("auto", "highs"):
        with pytest.raises(ow.UnsupportedFeatureError, match="no handle 'start'"):
            ow.solve(PROBLEMS["pipeline"], solver=solver, extend=lambda model, _: model.add(model.start("a") >= 0))


def test_plain_pyomo_has_the_same_handles() -> None:
    problem = ow.Placement(graph=GRAPH, cluster=CLUSTER, costs=COSTS, transfers="one_port_edge")
    rule = Few(device="d", most=1)
    for each in (rule, told_of(rule)):
        result = ow.solve(under(problem, each), solver="highs", formulation="moirai")
        check(result, optimum(problem, rule))
    ordering, first = PROBLEMS["memory_ordering"], NotFirst(op="b")
    for each in (first, told_of(first)):
        check(ow.solve(under(ordering, each), solver="highs", formulation="time_indexed"), TRUTHS["memory_ordering"])
    with pytest.raises(ow.UnsupportedFeatureError, match="no handle 'held'"):
        ow.solve(problem, solver="highs", formulation="moirai", extend=lambda model, _: model.add(model.held("d") <= 9))


def test_a_refusal_shows_the_two_lines_to_write() -> None:
    with pytest.raises(ow.UnsupportedConstraintError) as caught:
        ow.build_model(under(PROBLEMS["placement"], RULES["placement"]))
    assert '@ow.express(Few, "model")\n    def my_rule(model, rule): model.add(' in str(caught.value)
    with pytest.raises(ow.UnsupportedConstraintError, match=r"(?s)these can: .*auto, .*highs") as caught:
        ow.solve(under(PROBLEMS["memory_ordering"], RULES["memory_ordering"]), solver="btsearch")
    assert '@ow.express(NotFirst, "order_arcs")' in str(caught.value)


def test_a_rule_that_refuses_everything_unread_is_never_misreported() -> None:
    """It reads no device, so there are no choices to count: nothing may crash, and no plan may come back."""

    class Never(ow.Constraint):
        def violations(self, problem, solution):
            yield self.broken("never")

    for problem in PROBLEMS.values():
        for solver in ("auto", "highs"):
            result = ow.solve(under(problem, Never()), solver=solver, time_limit=1.0)
            assert result.status in (ow.Status.INFEASIBLE, ow.Status.UNKNOWN)
            assert result.solution is None


@pytest.mark.parametrize("solver", ["auto", "highs", "pymoo"])
def test_a_rule_that_returns_no_violations_object_is_refused_with_the_line_to_write(solver: str) -> None:
    class Forgot(ow.Constraint):
        def violations(self, problem, solution):
            return None

    class Alone(ow.Constraint):
        def violations(self, problem, solution):
            return self.broken("one")

    class Words(ow.Constraint):
        def violations(self, problem, solution):
            yield "a sentence"

    if solver == "pymoo":
        pytest.importorskip("pymoo")
    for rule in (Forgot(), Alone(), Words()):
        with pytest.raises(ow.InvalidInputError, match=r"violations gave .*yield self\.broken"):
            ow.solve(under(PROBLEMS["pipeline"], rule), solver=solver, time_limit=2.0)


@pytest.mark.parametrize("solver", ["highs", "cp-sat"])
def test_a_chained_comparison_never_loses_half_of_itself(solver: str) -> None:
    if solver == "cp-sat":
        pytest.importorskip("ortools")
    with pytest.raises(Exception, match=r"a comparison of handles is a row|to bool"):
        ow.solve(
            PROBLEMS["placement"],
            solver=solver,
            extend=lambda model, _: model.add(2 <= model.on("a", "d") + model.on("b", "d") <= 2),
        )
    for wrong in (True, False, None, "x <= 1"):
        with pytest.raises(ow.InvalidInputError, match=r"model\.add takes a row"):
            ow.solve(PROBLEMS["placement"], solver=solver, extend=lambda model, _, row=wrong: model.add(row))
