"""The search for the least amount, against every threshold, with and without questions that are not decided."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from opweave.solvers.questions.mend import _Range


@given(st.integers(1, 2000), st.data())
def test_the_least_amount_is_found(least: int, data: st.DataObject) -> None:
    """Plans take any sufficient amount up to the one that was tried."""
    found = _Range(data.draw(st.integers(least, 3000)))
    steps = 0
    while found.is_open(precision=0.0):
        more, steps = found.next(), steps + 1
        assert 0 < more < found.high
        if more >= least:
            found.enough(data.draw(st.integers(least, more)))
        else:
            found.not_enough(proved=True)
    assert (found.high, found.proved) == (least, least - 1)
    assert steps < 40


@given(st.integers(1, 300), st.integers(0, 20), st.data())
def test_it_ends_and_claims_nothing_that_is_not_proved(least: int, fog: int, data: st.DataObject) -> None:
    """Amounts within ``fog`` of the least one are not decided."""
    found = _Range(data.draw(st.integers(least + fog, 400)))
    for _ in range(100):
        if not found.is_open(precision=3.0):
            break
        more = found.next()
        if abs(more - least) <= fog:
            found.not_enough(proved=False)
        elif more >= least:
            found.enough(more)
        else:
            found.not_enough(proved=True)
    assert not found.is_open(precision=3.0)
    assert found.proved < least <= found.high
