"""Bounds with memory in whole bytes, along paths and by counts, against brute force, and where prices prove little."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import opweave as ow
from opweave.formulations.placement.instance import lower
from opweave.solvers.placement.arrays import arrays_of
from opweave.solvers.placement.bounds.area import memory_of
from opweave.solvers.placement.bounds.chain_bound import milestones_of
from opweave.solvers.placement.bounds.counts import count_program
from opweave.solvers.placement.bounds.prices import MemoryBounds
from opweave.solvers.placement.bounds.whole_bytes import WholeBytes
from tests.oracles.placement import best_placement
from tests.solvers.placement.instances import MODELS, small_problem, twin_problem
from tests.tiny import graph_of, row_of


def bounds_of(problem: ow.Placement, price: Any, most: int) -> MemoryBounds:
    arrays, memory = arrays_of(lower(problem), problem), memory_of(lower(problem))
    assert memory is not None
    return MemoryBounds(milestones_of(arrays, most), arrays, memory, np.zeros(len(memory.capacity)) + price)


def whole_bound(problem: ow.Placement, price: Any = 0.0, ceiling: float = math.inf) -> float:
    search, found = bounds_of(problem, price, 4), list[float]()
    search.go_on(lambda: 1.0, lambda _: None, lambda: 0.0)
    whole = WholeBytes(search.chain)
    whole.cut(lambda: 1.0)
    whole.raise_bound(search.price, lambda: ceiling, lambda: 1.0, found.append)
    if 0.0 < ceiling < math.inf:
        counts = count_program(whole, ceiling, lambda: 5.0)
        found.append(counts.bound(lambda: 5.0) if counts else 0.0)
    return max(found)


def layers(
    seconds: list[tuple[float, ...]], bytes_: list[int], room: Any, link: float, keys: int = 0, **fields: Any
) -> Any:
    """A chain of blocks: an operator with a by-pass and one that adds both; one parameter is shared by both ends.

    With ``keys`` bytes, the blocks behind the first one also add what an operator of their own makes of its result.
    """
    operators, tensors, parameters = [], [ow.Tensor(id="x", bytes=2)], [ow.Parameter(id="tied", bytes=bytes_[0])]
    last, names, table = "x", "abc"[: len(room)], dict[str, dict[str, float]]()
    for number, (size, row) in enumerate(zip(bytes_, seconds, strict=True)):
        added = [(f"f{number}", last, size), *([(f"k{number}", "a0", keys)] if keys and number else [])]
        for name, read, held in added:
            uses = [f"w{name}", *(["tied"] if read == last and number in (0, len(bytes_) - 1) else [])]
            parameters.append(ow.Parameter(id=f"w{name}", bytes=held))
            operators.append(ow.Operator(id=name, inputs=[read], outputs=[name], parameters=uses))
            table[name] = dict(zip(names, row, strict=True))
        made = [name for name, _, _ in added]
        operators.append(ow.Operator(id=f"a{number}", inputs=[last, *made], outputs=[f"a{number}"]))
        tensors += [ow.Tensor(id=name, bytes=2) for name in (*made, f"a{number}")]
        table[f"a{number}"] = {name: each / 8 for name, each in zip(names, row, strict=True)}
        last = f"a{number}"
    devices = [ow.Device(name=name, memory_bytes=size) for name, size in zip(names, room, strict=True)]
    graph = ow.OpGraph(operators=operators, tensors=tensors, parameters=parameters)
    cluster = ow.Cluster(devices=devices, shared=link, latency=0.25)
    return ow.Placement(graph, cluster, ow.Costs.from_table(table), memory="parameters", **fields)


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_no_more_than_the_optimum(data: st.DataObject) -> None:
    """Unequal layers, tight memory, any prices; devices a million times slower, or equal ones, and very slow links."""
    count, times = data.draw(st.integers(2, 3)), st.sampled_from([0.0, 1.0, 3.0, 1e6])
    row = data.draw(st.sampled_from([st.tuples(times, times), times.map(lambda each: (each, each))]))
    seconds = data.draw(st.lists(row, min_size=count, max_size=count))
    bytes_ = data.draw(st.lists(st.integers(0, 6), min_size=count, max_size=count))
    room = data.draw(st.tuples(*[st.integers(0, 14)] * 2) | st.integers(3, 14).map(lambda each: (each, each)))
    link, keys, transfers = (
        data.draw(each) for each in (st.sampled_from([1e-3, 1.0, 1e9]), st.integers(0, 4), st.sampled_from(MODELS))
    )
    problem = layers(seconds, bytes_, room, link, keys, transfers=transfers)
    optimum, _ = best_placement(problem)
    price = data.draw(st.sampled_from([0.0, 0.1, 1.0, 1e9]))
    ceiling = math.inf if optimum is None else optimum * data.draw(st.sampled_from([1.0, 1.5])) or math.inf
    bound = whole_bound(problem, price, ceiling)
    assert optimum is None or bound <= optimum * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("ceiling", [1.0, 2.0, math.inf])
def test_no_more_than_the_optimum_of_any_graph(seed: int, ceiling: float) -> None:
    for problem in (small_problem(seed, memory=True), twin_problem(seed)):
        optimum, _ = best_placement(problem)
        if optimum:
            found = whole_bound(problem, np.random.default_rng(seed).choice([0.0, 0.3]), optimum * ceiling)
            assert found <= optimum * (1 + 1e-9)


def test_a_path_pays_for_its_changes_whatever_prices_say() -> None:
    """Prices prove the 3 s of the layers and a share of a change; two of three layers fit, so a change is paid."""
    problem = layers([(1.0, 1.0)] * 4, [3, 4, 5, 4], [11, 12], 1.0)
    optimum, _ = best_placement(problem)
    assert optimum is not None
    assert whole_bound(problem, 0.0, optimum) >= 4.5 + 2.25 - 1e-6


def test_a_shared_parameter_counts_on_every_device() -> None:
    """Both ends read it; the middle layer is elsewhere, so there are two changes, or it is held twice."""
    assert_proved(layers([(1.0, 1.0)] * 3, [4, 6, 1], [9, 9], 1.0))


def test_keys_elsewhere_cost_their_messages() -> None:
    """Where keys are on another device than the block that adds them, they or the block's inputs have to be sent."""
    assert_proved(layers([(0.1, 0.1)] * 3, [3, 4, 4], [18, 10], 1.0, keys=5))


def test_rows_of_one_table_pass_a_port_one_after_the_other() -> None:
    """Only the slow device holds the table: 2 s each for the inputs of encoder and decoder, then 1 s of the decoder."""
    reads = {"e": "", "f": "", "enc": "e", "join": "enc f", "dec": "join"}
    graph = graph_of(dict.fromkeys(reads, 2), reads)
    read = [each.model_copy(update={"parameters": ("table",)}) for each in graph.operators[:2]]
    table, operators = ow.Parameter(id="table", bytes=9), [*read, *graph.operators[2:]]
    graph = ow.OpGraph(operators=operators, tensors=graph.tensors, parameters=[table])
    costs = ow.Costs.from_table(
        {name: {"a": 1.0 * name.endswith("c"), "b": 9.0 * name.endswith("c")} for name in reads}
    )
    devices = [ow.Device(name=name, memory_bytes=room) for name, room in (("a", 8), ("b", 20))]
    assert_proved(ow.Placement(graph, ow.Cluster(devices=devices, shared=1.0), costs, memory="parameters"))


def assert_proved(problem: ow.Placement) -> None:
    optimum, _ = best_placement(problem)
    assert optimum is not None
    assert whole_bound(problem, 0.0, 1.2 * optimum) == pytest.approx(optimum, rel=1e-6)


def test_counts_keep_the_order_of_steps_with_equal_ones_between() -> None:
    """Only all long ones on one device and all short ones on the other fit: every layer changes devices twice."""
    graph = row_of(24, *[5, 0, 0, 0, 2, 0, 0, 0] * 3)
    costs = ow.Costs.from_table({each.id: {"a": 1.0, "b": 1.0} for each in graph.operators})
    devices = [ow.Device(name=name, memory_bytes=room) for name, room in (("a", 15), ("b", 6))]
    problem = ow.Placement(graph, ow.Cluster(devices=devices, shared=1.0), costs, memory="parameters")
    search = bounds_of(problem, 0.0, 1)
    search.chain.value(search.price)
    counts = count_program(WholeBytes(search.chain), 40.0, lambda: 5.0)
    assert counts is not None
    assert counts.bound(lambda: 5.0) == pytest.approx(24.0 + 5.0, rel=1e-6)
