"""What lanes tell each other."""

import threading

import pytest

from opweave.solvers.run import Run
from opweave.solvers.side_by_side.exchange import Exchange, Fact, Found, Outbox, Proved
from opweave.solvers.side_by_side.lane import Lane, spread

from .ways import chain, only_order

ORDER = only_order(chain())


def pair():
    """Two exchanges that hear each other, as in two processes."""
    here, there = Exchange(), Exchange()
    to_there = lambda news: there.hear(news, to_here)  # noqa: E731
    to_here = lambda news: here.hear(news, to_there)  # noqa: E731
    here.listen(to_there)
    there.listen(to_here)
    return here, there


def test_a_run_takes_in_what_others_find_when_it_is_asked_whether_to_stop():
    here, there = pair()
    first, second = Run(exchange=here), Run(exchange=there)
    first.found(ORDER, 8)
    second.proved(5, "elsewhere")
    assert second.objective is None and first.bound is None
    assert not first.should_stop() and not second.should_stop()
    assert (first.objective, first.bound, first.bound_source) == (8, 5, "elsewhere")
    assert (second.objective, second.bound) == (8, 5)
    second.proved(8, "elsewhere")
    assert first.should_stop()


def test_only_what_is_better_travels():
    exchange = Exchange()
    heard = []
    exchange.listen(heard.append)
    exchange.tell(Found(ORDER, 8))
    exchange.tell(Found(ORDER, 9))
    exchange.tell(Proved(3, "a"))
    exchange.hear(Proved(2, "b"))
    assert heard == [Found(ORDER, 8), Proved(3, "a")]
    assert exchange.take() == []


def test_who_comes_late_is_told_what_is_known():
    exchange = Exchange()
    exchange.tell(Found(ORDER, 8))
    assert exchange.claim(("block", 1))
    heard = []
    exchange.listen(heard.append)
    assert heard == [Found(ORDER, 8), Fact(("block", 1), None)]


def test_a_piece_of_work_is_claimed_once_and_its_value_is_known_everywhere():
    here, there = pair()
    assert here.claim(("block", 1))
    assert not there.claim(("block", 1))
    assert not here.claim(("block", 1))
    here.tell(Fact(("block", 1), 2.5))
    assert there.fact(("block", 1)) == 2.5
    assert there.facts_from(0)[-1] == Fact(("block", 1), 2.5)


def test_what_a_dead_lane_had_begun_is_free_again():
    exchange = Exchange()
    gone = lambda news: None  # noqa: E731
    exchange.listen(gone)
    exchange.hear(Fact(("begun",), None), gone)
    exchange.hear(Fact(("ended",), None), gone)
    exchange.hear(Fact(("ended",), 1.0), gone)
    exchange.leave(gone)
    assert exchange.claim(("begun",))
    assert not exchange.claim(("ended",))


def test_the_flag_for_loops_on_arrays_rises_when_lanes_have_closed_the_gap():
    exchange = Exchange()
    run = Run(exchange=exchange, gap=0.3)
    halt = run.halt
    exchange.hear(Found(ORDER, 8))
    run.update_halt()
    assert halt[0] == 0
    exchange.hear(Proved(6, "elsewhere"))
    run.update_halt()
    assert halt[0] == 1


def test_an_outbox_sends_the_last_of_many_and_all_facts():
    sent, gate = [], threading.Event()

    def slow(news):
        gate.wait(5)
        sent.append(news)

    outbox = Outbox(slow)
    for bound in range(100):
        outbox.put(Proved(bound, ""))
    outbox.put(Fact(("a",), 1))
    outbox.put(Fact(("b",), 2))
    gate.set()
    outbox.close(5)
    assert sent[-3:] == [Proved(99, ""), Fact(("a",), 1), Fact(("b",), 2)] or Proved(99, "") in sent
    assert len(sent) < 10


@pytest.mark.parametrize("places", [1, 2, 5])
def test_no_two_lanes_are_alike(places):
    lanes = spread((Lane("a:b"), Lane("c:d")), places)
    assert len({(lane.function, lane.shift) for lane in lanes}) == places
