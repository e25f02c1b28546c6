"""Memory layout: the referee by hand, broken layouts, and what may not be said."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import opweave as ow
from opweave.problems.limits import MAX_BYTES
from tests.strategies.memory_layout import layouts, memory_layouts

A = ow.Lifetime(id="a", begin=0, end=2, bytes=4)
B = ow.Lifetime(id="b", begin=1, end=3, bytes=2)
C = ow.Lifetime(id="c", begin=2, end=4, bytes=4)
SMALL = ow.MemoryLayout(lifetimes=[A, B, C])
FAST, SLOW = ow.Pool(name="sram", bytes=4, operators=["p"]), ow.Pool(name="dram", alignment=8, speed=2.0)
BANKS = ow.MemoryLayout(
    lifetimes=[A, B.model_copy(update={"operators": ("q",)}), C], pools=[FAST, SLOW], objective="traffic"
)


def broken(problem: ow.MemoryLayout, **said: object) -> list[str]:
    return [each.rule for each in problem.evaluate(ow.Layout(**said)).violations]


def changed(problem: ow.MemoryLayout, **fields: object) -> ow.MemoryLayout:
    return ow.MemoryLayout(**{**{name: getattr(problem, name) for name in type(problem).model_fields}, **fields})


def test_one_arena_by_hand() -> None:
    """a and c take turns at 0; b stands above them, and 4 + 2 bytes live at once."""
    judged = SMALL.evaluate(ow.Layout(offset={"a": 0, "b": 4, "c": 0}))
    assert (judged.objective, judged.violations) == (6, ())
    assert (judged.details.live_peak, judged.details.pools[0].storages) == (6, 3)
    judged = SMALL.evaluate(ow.Layout(offset={"a": 0, "b": 4, "c": 6}))
    assert (judged.objective, judged.details.live_peak) == (10, 6)


def test_overlap_by_hand() -> None:
    """b is at fault, and left out when c comes."""
    judged = SMALL.evaluate(ow.Layout(offset={"a": 0, "b": 3, "c": 0}))
    assert [(each.rule, each.excess) for each in judged.violations] == [("overlap", 1.0)]
    assert judged.violations[0].message == "'a' and 'b' share 1 byte of 'arena' while both live"
    assert judged.objective == 5


def test_two_pools_by_hand() -> None:
    """b goes where q reaches: 2 bytes written and read at 2 bytes/s."""
    plan = ow.Layout(offset={"a": 0, "b": 8, "c": 0}, pool={"a": "sram", "b": "dram", "c": "sram"})
    judged = BANKS.evaluate(plan)
    assert (judged.objective, judged.violations) == (2.0, ())
    assert [(use.bytes, use.live_peak, use.traffic_seconds) for use in judged.details.pools] == [(4, 4, 0), (10, 2, 2)]
    assert BANKS.unit == "seconds"
    assert changed(BANKS, objective="arena").evaluate(plan).objective == 14
    assert broken(BANKS, offset={"a": 0, "b": 4, "c": 0}, pool={"a": "sram", "b": "sram", "c": "dram"}) == [
        "pool",
        "memory",
    ]
    assert broken(BANKS, offset={"a": 0, "b": 4, "c": 0}, pool={"a": "sram", "b": "dram", "c": "sram"}) == ["alignment"]


def test_what_is_missing_or_unknown_cannot_be_played() -> None:
    judged = SMALL.evaluate(ow.Layout(offset={"a": 0, "b": 4, "d": 0}))
    assert (judged.objective, judged.details, judged.timeline) == (None, None, None)
    assert [each.message for each in judged.violations] == ["'d' is not a storage of the problem", "'c' has no offset"]
    judged = BANKS.evaluate(ow.Layout(offset={"a": 0, "b": 8, "c": 0}, pool={"a": "sram", "b": "flash"}))
    assert [each.message for each in judged.violations] == [
        "'b' has the pool 'flash', which the problem does not have",
        "'c' has no pool",
    ]


def test_groups() -> None:
    offset = {"a": 0, "b": 4, "c": 0}
    pool = {"a": "x", "b": "x", "c": "y"}
    two = changed(SMALL, pools=[ow.Pool(name="x"), ow.Pool(name="y")])
    assert broken(changed(two, together=[["a", "c"]]), offset=offset, pool=pool) == ["together"]
    assert broken(changed(two, apart=[["a", "b", "c"]]), offset=offset, pool=pool) == ["apart"]
    assert broken(changed(two, in_place=[["a", "c"]]), offset=offset, pool=pool) == ["in_place"]
    assert broken(changed(SMALL, fixed={"b": 5}), offset=offset) == ["fixed"]
    assert broken(changed(SMALL, fixed={"b": 4}, together=[["a", "b"]]), offset=offset) == []


def test_storages_at_one_place_count_once() -> None:
    """a and b overlap in time, but b is written over a; c cannot use the place before b has gone."""
    problem = changed(SMALL, in_place=[["b", "a"]])
    assert [(block.name, block.begin, block.end, block.bytes) for block in problem.blocks] == [
        ("a = b", 0, 3, 4),
        ("c", 2, 4, 4),
    ]
    assert problem.evaluate(ow.Layout(offset={"a": 0, "b": 0, "c": 4})).objective == 8
    assert broken(problem, offset={"a": 0, "b": 0, "c": 0}) == ["overlap"]


def test_numbers_at_the_edge() -> None:
    """Sums beyond 2**53 stay exact."""
    huge = ow.Lifetime(id="a", begin=-(2**53), end=2**53, bytes=MAX_BYTES)
    problem = ow.MemoryLayout(lifetimes=[huge, huge.model_copy(update={"id": "b"}), B.model_copy(update={"id": "c"})])
    judged = problem.evaluate(ow.Layout(offset={"a": 0, "b": MAX_BYTES, "c": 2 * MAX_BYTES}))
    assert (judged.objective, judged.details.live_peak) == (2**54 + 2, 2**54 + 2)
    assert broken(problem, offset={"a": 0, "b": MAX_BYTES - 1, "c": 2 * MAX_BYTES}) == ["overlap"]
    with pytest.raises(ow.InvalidInputError, match=r"more than 2\*\*62 bytes"):
        ow.MemoryLayout(lifetimes=[huge.model_copy(update={"id": str(k)}) for k in range(512)])
    slow = ow.MemoryLayout(lifetimes=[B], pools=[ow.Pool(name="tape", speed=1e-12)], objective="traffic")
    assert slow.evaluate(ow.Layout(offset={"b": 0})).objective == 4e12
    with pytest.raises(ow.InvalidInputError, match=r"could take 1.8e\+16 seconds"):
        changed(slow, lifetimes=[huge], pools=[ow.Pool(name="tape", speed=1)])


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"lifetimes": [A, A]}, "two storages have the name 'a'"),
        ({"pools": [FAST, FAST]}, "two pools have the name 'sram'"),
        ({"pools": []}, "a layout needs a pool"),
        ({"fixed": {"x": 0}}, "fixed names storage 'x'"),
        ({"fixed": {"a": -1}}, "greater than or equal to 0"),
        ({"apart": [["a", "bb"]]}, "apart names storage 'bb', which the problem does not have"),
        ({"together": [["a", "a"]]}, "together names storage 'a' twice"),
        ({"in_place": [["a", "b"]], "fixed": {"a": 0, "b": 4}}, "a = b stand at one place, but have several"),
        ({"lifetimes": [{"id": "a", "begin": 3, "end": 2, "bytes": 1}]}, "'a' ends at 2 before it begins at 3"),
        ({"lifetimes": [{"id": "a", "begin": 0, "end": 2, "bytes": 1, "alignment": 3}]}, "is a power of two"),
        ({"lifetimes": [{"id": "a", "begin": 0, "end": 2, "bytes": 1, "pools": ["flash"]}]}, "names pool 'flash'"),
        ({"lifetimes": [{"id": "a", "begin": 0, "end": 2**60, "bytes": 1}]}, "less than or equal to"),
        ({"pools": [{"name": "a", "speed": 0}]}, "has a speed of 0"),
        ({"constraints": [ow.Pin(op="p", device="a")]}, "Pin is about devices, and MemoryLayout has none"),
        ({"constraints": [ow.MaxDevices(count=1)]}, "MaxDevices is about devices"),
    ],
)
def test_what_is_refused(fields: dict[str, object], said: str) -> None:
    with pytest.raises(ow.InvalidInputError, match=said):
        changed(SMALL, **fields)


@settings(max_examples=50)
@given(data=st.data(), problem=memory_layouts(5, pools=2))
def test_the_referee_objects_to_exactly_what_is_wrong(data: st.DataObject, problem: ow.MemoryLayout) -> None:
    """Every pair is compared, as the sweep does not."""
    plan = data.draw(layouts(problem))
    clash = any(
        plan.pool[a.members[0].id] == plan.pool[b.members[0].id]
        and max(a.begin, b.begin) < min(a.end, b.end)
        and max(plan.offset[a.members[0].id], plan.offset[b.members[0].id])
        < min(plan.offset[a.members[0].id] + a.bytes, plan.offset[b.members[0].id] + b.bytes)
        and min(a.bytes, b.bytes) > 0
        for k, a in enumerate(problem.blocks)
        for b in problem.blocks[k + 1 :]
        if a.begin < a.end and b.begin < b.end
    )
    assert ("overlap" in broken(problem, **plan.model_dump(exclude={"kind"}))) == clash
