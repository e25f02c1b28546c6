"""A rule of one's own means the same as ``extend``, as an expression and as ``violations`` alone, for every engine."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

import opweave as ow
from opweave.formulations.placement.model import PlacementModel
from opweave.solvers.engines.rules import devices_read
from opweave.solvers.evolution import penalties
from tests.oracles.batched_mapping import best_batched_mapping
from tests.oracles.memory_layout import best_layout
from tests.oracles.pipeline import best_pipeline
from tests.oracles.placement import best_placement
from tests.oracles.serving_flow import best_serving
from tests.test_own_constraints import best_whole_slices
from tests.tiny import CLUSTER, COSTS, GRAPH, PROBLEMS, row_of, under

DEVICES = [device.name for device in CLUSTER.devices]
EXACT = 1 + 1e-6


class Rule(ow.Constraint):
    """A rule of a user's own."""

    def obeys(self, problem, solution) -> bool:
        raise NotImplementedError

    def violations(self, problem, solution):
        if not self.obeys(problem, solution):
            yield self.broken("it is broken")


class Few(Rule):
    """At most ``most`` operators have a part on ``device``."""

    device: str
    most: int

    def obeys(self, problem, solution):
        return sum(self.device in devices for devices in solution.devices_by_operator().values()) <= self.most


class Apart(Rule):
    """No device runs both operators."""

    ops: tuple[str, str]

    def obeys(self, problem, solution):
        where = solution.devices_by_operator()
        return not where[self.ops[0]] & where[self.ops[1]]


class NotFirst(Rule):
    """Another operator runs first."""

    op: str

    def obeys(self, problem, solution):
        return solution.order[0] != self.op


class NotTogether(Rule):
    """Two storages are in different pools."""

    storages: tuple[str, str]

    def obeys(self, problem, solution):
        return len({problem.pool_of(solution, each) for each in self.storages}) == 2


class NotBefore(Rule):
    """``op`` starts after so many seconds."""

    op: str
    seconds: float

    def obeys(self, problem, solution):
        return problem.intervals(solution)[self.op][0] >= self.seconds * (1 - 1e-6)


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


def told_of(rule: ow.Constraint) -> ow.Constraint:
    return TOLD[type(rule)](**{name: getattr(rule, name) for name in type(rule).model_fields})


def assignments(problem: ow.extend.Problem, rule: ow.Constraint) -> Iterator[tuple[ow.Pin, ...]]:
    """Every choice of one device for each operator that obeys a rule, counted by hand."""
    names = [op.id for op in problem.graph.operators]
    for chosen in itertools.product([device.name for device in problem.cluster.devices], repeat=len(names)):
        if isinstance(rule, Few):
            obeys = chosen.count(rule.device) <= rule.most
        else:
            obeys = len({chosen[names.index(op)] for op in rule.ops}) == 2
        if obeys:
            yield tuple(ow.Pin(op=op, device=device) for op, device in zip(names, chosen, strict=True))


def optimum(problem: ow.extend.Problem, rule: ow.Constraint) -> float | None:
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


@pytest.mark.parametrize("kind", PROBLEMS)
def test_auto_finds_soon_that_rows_contradict_each_other(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a time limit as well, where one worker follows the other: no search for plans comes before the proof."""
    monkeypatch.setattr(penalties, "search_with_penalties", lambda *_: pytest.fail("the search came first"))

    def extend(model, problem) -> None:
        if kind == "memory_ordering":
            model.add(model.position("a") + 1 <= model.position("b"))
            model.add(model.position("b") + 1 <= model.position("a"))
            return
        part = {"slicing": "share", "memory_layout": "in_pool"}.get(kind, "on")
        a, b, c = (getattr(model, part)(op, "d") for op in ("a", "b", "c"))
        model.add(a + b >= 1.5)  # every two of these can be met
        model.add(a + c <= 1)
        model.add(b + (1 - c) <= 1)

    result = ow.solve(PROBLEMS[kind], extend=extend)
    assert result.status is ow.Status.INFEASIBLE, result.reason


@pytest.mark.parametrize("kind", ["placement", "pipeline"])
@pytest.mark.parametrize(("device", "most"), [("d", 0), ("e", 0), ("d", 2)])
def test_violations_alone_agree_with_brute_force(kind: str, device: str, most: int) -> None:
    rule = Few(device=device, most=most)
    for solver in ("auto", "highs"):
        check(ow.solve(under(PROBLEMS[kind], rule), solver=solver), optimum(PROBLEMS[kind], rule))


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

    assert ow.solve(problem, solver="highs", extend=no_longer).status is ow.Status.INFEASIBLE


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


def test_what_a_rule_looks_at_is_what_its_refusal_rests_on() -> None:
    problem = PROBLEMS["placement"]
    solution = ow.solve(under(problem, ow.Pin(op="a", device="d"), ow.Pin(op="b", device="d"))).solution

    def reads(look) -> set[str] | None:
        class Rule(ow.Constraint):
            def violations(self, problem, solution):
                if look(problem, solution) is not False:
                    yield self.broken("always")

        found = devices_read(Rule(), problem, solution)
        return None if found is None else set(found)

    assert reads(lambda problem, solution: None) == set()
    assert reads(lambda problem, solution: solution.devices_by_operator()["b"]) == {"b"}
    assert reads(lambda problem, solution: "a" in solution.devices_by_operator()) == {"a"}
    assert reads(lambda problem, solution: list(solution.devices_by_operator().values())) == set("abc")
    for more in (
        lambda problem, solution: solution.start["a"],
        lambda problem, solution: problem.intervals(solution),
        lambda problem, solution: hash(solution),
        lambda problem, solution: solution != 3,
        lambda problem, solution: repr(solution),
        lambda problem, solution: vars(solution),
        lambda problem, solution: isinstance(solution, ow.Schedule),
    ):
        assert reads(more) is None
    assert devices_read(ow.Pin(op="a", device="d"), problem, solution) is None  # it does not object


@pytest.mark.parametrize("kind", [ow.Placement, ow.Pipeline])
def test_a_rule_that_reads_many_operators_still_gets_a_plan(kind: type[ow.extend.Problem]) -> None:
    seconds = {f"o{k}": {"d": 1.0, "e": 3.0} for k in range(40)}
    problem = kind(graph=row_of(40, size=0), cluster=CLUSTER, costs=ow.Costs.from_table(seconds))
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
    with pytest.raises(ow.UnsupportedFeatureError, match="no model variable 'uses'"):
        ow.solve(problem, solver="highs", formulation="disjunctive", extend=use)
    for solver in ("auto", "highs"):
        with pytest.raises(ow.UnsupportedFeatureError, match="no model variable 'start'"):
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
    with pytest.raises(ow.UnsupportedFeatureError, match="no model variable 'held'"):
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
    if solver == "pymoo":
        pytest.importorskip("pymoo")

    class Wrong(ow.Constraint):
        gives: str

        def violations(self, problem, solution):
            return {"nothing": None, "one": self.broken("one"), "words": ["a sentence"]}[self.gives]

    for gives in ("nothing", "one", "words"):
        with pytest.raises(ow.InvalidInputError, match=r"violations gave .*yield self\.broken"):
            ow.solve(under(PROBLEMS["pipeline"], Wrong(gives=gives)), solver=solver, time_limit=2.0)


@pytest.mark.parametrize("solver", ["highs", "cp-sat"])
def test_a_chained_comparison_never_loses_half_of_itself(solver: str) -> None:
    if solver == "cp-sat":
        pytest.importorskip("ortools")
    with pytest.raises(Exception, match=r"a comparison of model variables is a constraint|to bool"):
        ow.solve(
            PROBLEMS["placement"],
            solver=solver,
            extend=lambda model, _: model.add(2 <= model.on("a", "d") + model.on("b", "d") <= 2),
        )
    for wrong in (True, False, None, "x <= 1"):
        with pytest.raises(ow.InvalidInputError, match=r"model\.add takes a constraint"):
            ow.solve(PROBLEMS["placement"], solver=solver, extend=lambda model, _, row=wrong: model.add(row))
