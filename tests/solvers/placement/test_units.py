"""Plans of equal units: what repeats, options and prices, counts against brute force, the solver as a whole."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest

import opweave as ow
from opweave.formulations.placement.instance import PlacementInstance, lower
from opweave.problems.constraints import Colocate, MemoryCap, Pin
from opweave.problems.placement.spec import Placement, Schedule
from opweave.solvers.placement.arrays import PlacementArrays, arrays_of
from opweave.solvers.placement.bounds.area import memory_of
from opweave.solvers.placement.bounds.broadcasts import broadcast_bound, can_be_raised, raise_by_broadcasts
from opweave.solvers.placement.bounds.chain_bound import milestones_of
from opweave.solvers.placement.bounds.counts import priced_counts
from opweave.solvers.placement.bounds.price_search import PriceSearch
from opweave.solvers.placement.equal_units import EqualUnits, repeats
from opweave.solvers.placement.plans import memory_used
from opweave.solvers.placement.priced_plans import Cooling
from opweave.solvers.placement.unit_counts import Kinds, best_counts, prices_of, walked
from opweave.solvers.placement.unit_crossings import crossings
from opweave.solvers.placement.unit_plans import Option, UnitSearch
from opweave.solvers.placement.units import Unit, stretches, units_of
from opweave.solvers.run import Run
from tests.oracles.placement import best_placement
from tests.solvers.placement.instances import MODELS, layered_problem, small_problem

PRICE = np.asarray([0.5, 0.0])


def _units(problem: Placement) -> tuple[list[Unit], PlacementInstance, PlacementArrays]:
    instance = lower(problem)
    arrays = arrays_of(instance, problem)
    return units_of(milestones_of(arrays), instance, arrays), instance, arrays


def _repeated(problem: Placement) -> UnitSearch:
    units, instance, arrays = _units(problem)
    return UnitSearch(max(units, key=lambda unit: unit.times), instance, arrays)


@pytest.mark.parametrize("seed", range(20))
def test_stretches_cover_a_sequence_and_repeat(seed: int) -> None:
    values = np.random.default_rng(seed).integers(0, 3, size=30).tolist()
    found = stretches(values)
    covered = [i for part in found for i in range(part.first, part.first + part.period * part.times)]
    assert covered == list(range(len(values)))
    for part in found:
        rows = [values[part.first + t * part.period :][: part.period] for t in range(part.times)]
        assert all(row == rows[0] for row in rows)


def test_equal_layers_become_one_kind_of_unit() -> None:
    units, instance, _ = _units(layered_problem(6, 3))
    assert max(unit.times for unit in units) >= 5
    decided = np.concatenate([unit.members[:, unit.own].ravel() for unit in units])
    assert sorted(decided.tolist()) == list(range(instance.operators))
    assert [len(group) for group in max(units, key=lambda unit: unit.times).branches] == [3]


def test_a_pin_or_another_weight_makes_a_layer_unlike_the_others() -> None:
    plain = layered_problem(6, 3)
    pinned = plain.model_copy(update={"constraints": (Pin(op="l3.h1", device="slow"),)})
    heavier = tuple(
        weight.model_copy(update={"bytes": 7}) if weight.id == "l3.h1.w" else weight
        for weight in plain.graph.parameters
    )
    heavy = plain.model_copy(update={"graph": plain.graph.model_copy(update={"parameters": heavier})})
    most = max(unit.times for unit in _units(plain)[0])
    for changed in (pinned, heavy):
        assert max(unit.times for unit in _units(changed)[0]) < most


@pytest.mark.parametrize("model", MODELS)
def test_an_option_says_what_its_plan_takes(model: str) -> None:
    search = _repeated(layered_problem(6, 4, transfers=model))
    alone = search.pure(0)
    spread = search.spread(0, np.zeros(2))
    assert alone is not None
    assert spread is not None
    assert alone.seconds == pytest.approx(1.0 + 4 * 3.0 + 1.0)
    assert alone.bytes.tolist() == [10.0, 0.0]
    assert spread.seconds <= alone.seconds
    own = spread.device[search.unit.own]
    weights = np.asarray([1 if row.inputs and ".h" not in row.id else 2 for row in _operators(search)])
    assert spread.bytes.tolist() == [float(weights[own == k].sum()) for k in range(2)]


def _operators(search: UnitSearch) -> list[ow.Operator]:
    graph = layered_problem(6, 4).graph
    return [graph.operators[v] for v in search.operators[search.unit.own].tolist()]


def test_dear_memory_is_left_and_no_search_makes_a_plan_worse() -> None:
    search = _repeated(layered_problem(6, 4))
    dear = 100.0 * PRICE
    alone, spread = search.pure(0), search.spread(0, dear)
    assert alone is not None
    assert spread is not None
    assert spread.bytes[0] < alone.bytes[0]
    for ties in (search.cluster, search.whole_branches):
        found = search.annealed(spread, PRICE, Cooling(ties, 0.02, 2, (0,)), Run())
        again = search.annealed(spread, PRICE, Cooling(ties, 0.02, 2, (0,)), Run())
        assert found.cost(PRICE) <= spread.cost(PRICE)
        assert found.cost(PRICE) == again.cost(PRICE)


def _times_faster(search: UnitSearch, leftover: range) -> int:
    """How often bytes left over on the second device make the plan on the first one faster; it never takes more."""
    alone = search.pure(0)
    assert alone is not None
    cooling, faster = Cooling(search.cluster, 0.02, 2, (0,)), 0
    for more in leftover:
        room = alone.bytes + np.asarray([0.0, float(more)])
        found = search.filled(alone, room, cooling, Run())
        assert (found.bytes <= room).all()
        assert found.seconds <= alone.seconds
        faster += found.seconds < alone.seconds
    return faster


def test_a_plan_that_fills_leftover_memory_stays_within_it_and_is_no_slower() -> None:
    assert _times_faster(_repeated(layered_problem(4, 6, room=40)), range(0, 16, 3)) > 0


def test_leftover_memory_holds_a_shared_parameter_in_full() -> None:
    """Half of its bytes for each of two users is a bound, but a device that runs one of them holds it all."""
    plain = layered_problem(4, 6, room=60)
    shared = tuple(
        op.model_copy(update={"parameters": (*op.parameters, f"all{op.id[:2]}")}) if ".h" in op.id else op
        for op in plain.graph.operators
    )
    more = [ow.Parameter(id=f"alll{layer}", bytes=12) for layer in range(4)]
    graph = plain.graph.model_copy(update={"operators": shared, "parameters": (*plain.graph.parameters, *more)})
    search = _repeated(plain.model_copy(update={"graph": graph}))
    assert 0 < _times_faster(search, range(0, 24, 3)) < 8


def _option(seconds: float, home: int, bytes_: list[float], entered: int | None = None) -> Option:
    nothing = np.zeros(0, dtype=np.int64)
    return Option(home if entered is None else entered, home, seconds, np.asarray(bytes_), nothing, nothing)


FREE = np.zeros((2, 2))


@pytest.mark.parametrize("seed", range(15))
def test_counts_of_options_are_the_best_that_fit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    options = [
        _option(float(rng.integers(1, 20)), int(rng.integers(0, 2)), rng.integers(0, 9, size=2).tolist())
        for _ in range(3)
    ]
    kinds, capacity = Kinds([4], [options], [FREE]), rng.integers(10, 30, size=2)
    rows = [np.asarray(row) for row in product(range(5), repeat=3) if sum(row) == 4]
    fitting = [row for row in rows if (sum(n * o.bytes for n, o in zip(row, options, strict=True)) <= capacity).all()]
    costs = [sum(n * o.seconds for n, o in zip(row, options, strict=True)) for row in fitting]
    found, prices = best_counts(kinds, capacity, 5.0), prices_of(kinds, capacity)
    if not fitting:
        assert found is None
        return
    assert found is not None
    assert prices is not None
    assert float(found.counts[0] @ [o.seconds for o in options]) == pytest.approx(min(costs), rel=1e-3)
    assert prices.seconds <= min(costs) + 1e-6
    assert (prices.memory >= 0.0).all()


def test_units_without_plans_leave_nothing_to_count() -> None:
    """The time may be up before a kind of units has a plan."""
    kinds, capacity = Kinds([2, 2], [[_option(1.0, 0, [0, 0])], []], [FREE, FREE]), np.full(2, 10)
    assert best_counts(kinds, capacity, 5.0) is None
    assert prices_of(kinds, capacity) is None


def test_handing_over_is_paid_for() -> None:
    options = [[_option(1.0, 0, [0, 0])], [_option(1.0, 1, [0, 0]), _option(1.5, 0, [0, 0])]]
    free = Kinds([2, 2], options, [FREE, FREE])
    dear = Kinds(free.times, free.options, [FREE, 5.0 * (1.0 - np.eye(2))])
    unlimited = np.full(2, np.iinfo(np.int64).max)
    for kinds, expected in ((free, [[2], [2, 0]]), (dear, [[2], [0, 2]])):
        found = best_counts(kinds, unlimited, 5.0)
        assert found is not None
        assert [row.tolist() for row in found.counts] == expected


@pytest.mark.parametrize("seed", range(30))
def test_a_walk_takes_every_chosen_option_and_is_the_best_sequence(seed: int) -> None:
    """All sequences of three units on two or three devices, some of which cross from device to device."""
    rng, devices = np.random.default_rng(seed), 2 + seed % 2
    ends = rng.integers(0, devices, size=(6, 2)).tolist()
    bytes_ = rng.integers(0, 9, size=(6, devices)).astype(float).tolist()
    options = [_option(float(rng.integers(5, 9)), b, row, a) for (a, b), row in zip(ends, bytes_, strict=True)]
    links = rng.integers(1, 6, size=(devices, devices)) * (1.0 - np.eye(devices))
    kinds, capacity = Kinds([3], [options], [links]), rng.integers(8, 25, size=devices)

    def cost(chosen: tuple[int, ...] | list[int]) -> float:
        row = [options[o] for o in chosen]
        return sum(o.seconds for o in row) + sum(float(links[a.home, b.entered]) for a, b in pairwise(row))

    fitting = [
        cost(row) for row in product(range(6), repeat=3) if (sum(options[o].bytes for o in row) <= capacity).all()
    ]
    found, prices = best_counts(kinds, capacity, 5.0), prices_of(kinds, capacity)
    if not fitting:
        assert found is None
        return
    assert found is not None
    assert prices is not None
    chosen = np.repeat(np.arange(6), found.counts[0]).tolist()
    order = walked(options, chosen, found, 0)
    assert sorted(order) == chosen
    assert prices.seconds <= min(fitting) + 1e-6
    counted = sum(options[o].seconds for o in chosen) + float((found.switches[0] * links).sum())
    assert counted <= min(fitting) * (1.0 + 1e-3)  # circles of their own may cost less than any walk
    assert cost(order) >= min(fitting)
    assert cost(order) == pytest.approx(min(fitting), rel=1e-3)  # none of these seeds has a circle of its own


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("room", [None, 30, 24])
def test_the_solver_s_plans_fit_and_beat_the_baselines(model: str, room: int | None) -> None:
    problem = layered_problem(8, 3, room=room, transfers=model)
    baselines = [ow.solve(problem, solver=name).objective for name in ("one_device", "fill")]
    best = min(baseline for baseline in baselines if baseline is not None) * (1 + 1e-9)

    def beaten(now: ow.Progress) -> bool:
        return now.objective is not None and now.objective <= best

    result = ow.solve(problem, solver="units", time_limit=60.0, callback=beaten)  # a busy machine needs seconds
    assert result.verified
    assert result.objective is not None
    assert result.objective <= best
    assert result.bound is None or result.bound <= result.objective * (1 + 1e-9)


def test_side_constraints_hold() -> None:
    problem = layered_problem(8, 3)
    rules = (
        Pin(op="l2.h0", device="slow"),
        Colocate(ops=("l4.h0", "l4.h1")),
        MemoryCap(device="fast", bytes=40),
    )
    ruled = problem.model_copy(update={"constraints": rules})
    result = ow.solve(ruled, solver="units", time_limit=60.0, callback=lambda now: now.objective is not None)
    assert result.verified
    assert result.solution is not None
    assert result.solution.device["l2.h0"] == "slow"


def test_a_tie_over_several_units_is_never_broken() -> None:
    problem = layered_problem(6, 2)
    tied = problem.model_copy(update={"constraints": (Colocate(ops=("l1.h0", "l4.h1")),)})
    for solver in ("units", "auto"):
        result = ow.solve(tied, solver=solver, time_limit=1.0)
        assert not result.violations
        if result.solution is None:
            assert solver == "units"
            assert result.reason
        else:
            assert result.solution.device["l1.h0"] == result.solution.device["l4.h1"]


def test_a_graph_without_equal_modules_gets_no_plan() -> None:
    problem = small_problem(3)
    assert not repeats(arrays_of(lower(problem), problem))
    result = ow.solve(problem, solver="units")
    assert result.solution is None
    assert result.reason is not None


def test_prices_of_memory_are_zero_unless_it_binds() -> None:
    for room, binds in ((None, False), (24, True)):
        problem = layered_problem(8, 2, room=room)
        instance = lower(problem)
        arrays = arrays_of(instance, problem)
        chain = milestones_of(arrays)
        found = priced_counts(chain, instance, arrays, 5.0)
        assert (found.bound > 0.0) == binds
        assert found.price.any() == binds


@pytest.mark.parametrize("seed", range(12))
def test_broadcasts_stay_below_the_optimum(seed: int) -> None:
    problem = small_problem(seed, most_operators=6)
    _check_broadcasts(problem)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("room", [None, 4])
def test_broadcasts_stay_below_the_optimum_of_layers(model: str, room: int | None) -> None:
    _check_broadcasts(layered_problem(1, 4, room=room, transfers=model))


def test_tensors_within_alike_branches_may_be_sent_in_part() -> None:
    reads = {"in": ["x"], "a0": ["in"], "a1": ["in"], "b0": ["a0"], "c0": ["a0"], "b1": ["a1"], "c1": ["a1"]}
    reads["join"] = ["b0", "c0", "b1", "c1"]
    operators = [ow.Operator(id=name, inputs=inputs, outputs=[name + "!"]) for name, inputs in reads.items()]
    tensors = [ow.Tensor(id=name + "!", bytes=2) for name in reads]
    renamed = [
        op.model_copy(update={"inputs": tuple(name + "!" for name in op.inputs)}) if op.id != "in" else op
        for op in operators
    ]
    graph = ow.OpGraph(operators=renamed, tensors=[ow.Tensor(id="x", bytes=1), *tensors])
    for bandwidth in (1.0, 4.0):
        machines = [ow.Device(name=name) for name in ("fast", "slow")]
        cluster = ow.Cluster(devices=machines, bandwidth=[[0, bandwidth], [bandwidth, 0]])
        seconds = {name: {"fast": 2.0, "slow": 3.0} for name in reads}
        _check_broadcasts(Placement(graph=graph, cluster=cluster, costs=ow.Costs.from_table(seconds)))


def _check_broadcasts(problem: Placement) -> None:
    optimum, _ = best_placement(problem)
    assert optimum is not None
    chain = milestones_of(arrays_of(lower(problem), problem))
    for block, a, b in chain.pairs():
        if can_be_raised(block):
            assert broadcast_bound(block, a, b, 5.0) >= float(block.values[a, b])
    values = [chain.value()]
    raise_by_broadcasts(chain, Run(), lambda: values.append(chain.value()))
    assert values == sorted(values)
    assert chain.value() <= optimum * (1 + 1e-9)


def test_units_learn_from_a_schedule() -> None:
    problem = layered_problem(8, 4)
    instance = lower(problem)
    arrays = arrays_of(instance, problem)
    known = ow.solve(problem, solver="heft").solution
    assert known is not None
    run = Run()
    work = EqualUnits(instance, arrays, None, run)
    work.learn(known)
    assert any(work.kinds.options)
    work.first_options(np.zeros(2))
    work.assemble()
    assert isinstance(run.best, Schedule)
    assert problem.evaluate(run.best).objective == pytest.approx(run.objective)


def test_laid_out_plans_count_every_unit_once() -> None:
    problem = layered_problem(8, 3, room=24)
    instance = lower(problem)
    arrays = arrays_of(instance, problem)
    run = Run(time_limit=2.0)
    work = EqualUnits(instance, arrays, None, run)
    work.first_options(priced_counts(work.chain, instance, arrays, 5.0).price)
    work.assemble()
    assert isinstance(run.best, Schedule)
    index = {name: k for k, name in enumerate(instance.devices)}
    device = np.asarray([index[run.best.device[name]] for name in instance.names], dtype=np.int64)
    assert (memory_used(arrays, device) <= arrays.capacity).all()
    assert problem.evaluate(run.best).feasible


def test_a_proved_plan_is_complete() -> None:
    """It was said to have ended for lack of time, although nothing was left to do."""
    names = [f"o{i}" for i in range(6)]
    problem = Placement(
        graph=ow.OpGraph(
            tensors=[ow.Tensor(id=f"t{name}", bytes=1) for name in names],
            operators=[
                ow.Operator(id=name, inputs=[f"t{names[i - 1]}"] if i else [], outputs=[f"t{name}"])
                for i, name in enumerate(names)
            ],
        ),
        cluster=ow.Cluster(devices=[ow.Device(name="a"), ow.Device(name="b")], shared=1.0),
        costs=ow.Costs.from_table({name: {"a": 1.0, "b": 1.0} for name in names}),
    )
    result = ow.solve(problem, solver="units")
    assert (result.status, result.objective) == (ow.Status.OPTIMAL, 6.0)
    assert result.termination is ow.Termination.COMPLETED


def test_plans_of_windows_make_up_plans_of_a_unit_for_all_pairs_of_ends() -> None:
    problem = layered_problem(6, 3, room=12)
    instance = lower(problem)
    arrays, memory = arrays_of(instance, problem), memory_of(instance)
    assert memory is not None
    work = EqualUnits(instance, arrays, None, Run())
    prices = PriceSearch(work.chain, arrays, memory, np.asarray([0.3, 0.1]))
    prices.go_on(lambda: 1.0, lambda _: None)
    search = max(work.searches, key=lambda each: each.unit.times)
    found = [option for price in prices.prices() for option in crossings(prices.priced, search, price)]
    assert {(option.entered, option.home) for option in found} == set(product(range(2), repeat=2))
    for option in found:
        ends = int(option.device[0]), int(option.device[-1])
        again = search.option(ends, option.order, option.device)
        assert (option.entered, option.home) == ends
        assert (option.seconds, option.bytes.tolist()) == (again.seconds, again.bytes.tolist())
