"""Hypothesis strategies for memory layout: few storages, odd in every way that is legal, and layouts of them."""

from __future__ import annotations

from opweave.problems.memory_layout.spec import Layout, Lifetime, MemoryLayout, Pool
from tests.strategies import choices as st
from tests.strategies.choices import DrawFn

SIZES = st.sampled_from([4, 4, 1, 2, 3, 7, 12, 0])


@st.composite
def memory_layouts(
    draw: DrawFn, most: int = 6, *, pools: int = 1, limits: bool = True, rules: bool = True
) -> MemoryLayout:
    """A problem with up to ``most`` storages and ``pools`` pools; with pools, it may be about traffic."""
    count, names = draw(st.integers(0, most)), [f"s{k}" for k in range(most)]
    operators, number = ["p", "q"], draw(st.integers(1, pools))
    own = [
        Pool(
            name=f"pool{k}",
            bytes=draw(st.none() | st.integers(0, 30)) if limits else None,
            alignment=draw(st.sampled_from([1, 1, 1, 4])),
            speed=draw(st.sampled_from([None, 1.0, 10.0])),
            operators=draw(st.none() | st.none() | st.sampled_from([("p",), ("p", "q")])) if rules else None,
            price=draw(st.sampled_from([1, 1, 0, 3])) if number > 1 else 1,
        )
        for k in range(number)
    ]
    known = [pool.name for pool in own]
    lifetimes = []
    for name in names[:count]:
        begin = draw(st.integers(0, 7))
        lifetimes.append(
            Lifetime(
                id=name,
                begin=begin,
                end=begin + draw(st.sampled_from([1, 1, 2, 3, 5, 0.5, 0])),
                bytes=draw(SIZES),
                alignment=draw(st.sampled_from([1, 1, 1, 2, 8])),
                pools=draw(st.none() | st.none() | st.lists(st.sampled_from(known), unique=True)) if rules else None,
                operators=draw(st.lists(st.sampled_from(operators), max_size=1)),
                traffic=draw(st.none() | st.integers(0, 50)),
            )
        )
    groups: dict[str, list[list[str]]] = {"together": [], "apart": [], "in_place": []}
    fixed: dict[str, int] = {}
    if rules and count > 1:
        some = st.lists(st.sampled_from(names[:count]), min_size=2, max_size=2, unique=True)
        for field in groups:
            groups[field] = draw(st.lists(some, max_size=draw(st.sampled_from([0, 0, 1]))))
        fixed = draw(st.dictionaries(st.sampled_from(names[:count]), st.sampled_from([0, 4, 8]), max_size=1))
    return MemoryLayout(
        lifetimes=lifetimes,
        pools=own,
        fixed=fixed,
        objective=draw(st.sampled_from(["arena", "traffic"])) if pools > 1 else "arena",
        **groups,
    )


@st.composite
def layouts(draw: DrawFn, problem: MemoryLayout) -> Layout:
    """Any offsets and pools."""
    ids = [each.id for each in problem.lifetimes]
    return Layout(
        offset={name: draw(st.integers(0, 16)) for name in ids},
        pool={name: draw(st.sampled_from(problem.pools)).name for name in ids},
    )
