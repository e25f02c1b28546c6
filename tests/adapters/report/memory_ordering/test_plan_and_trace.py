"""The plan and the trace carry the bytes that the referee counts."""

from __future__ import annotations

import json
from itertools import pairwise

from opweave.adapters.report.views import show
from opweave.problems.memory_ordering.spec import MemoryOrdering, Ordering
from opweave.problems.result import Result

# Bytes by hand for grow a, shrink a, grow b, shrink b, join (x 1, a 10, b 12, a1 1, b1 1, y 2).
STABLE = [1 + 10, 1 + 10 + 1, 1 + 1 + 12, 1 + 12 + 1, 1 + 1 + 2]
TRANSIENT = [1 + 10, 1 + 1, 1 + 12, 1 + 1, 2]


def test_the_trace_shows_operators_and_live_bytes(problem: MemoryOrdering, result: Result[Ordering]) -> None:
    assert result.solution is not None
    trace = json.loads(json.dumps(show(problem, result).trace()))
    blocks = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    counts = [event for event in trace["traceEvents"] if event["ph"] == "C"]
    assert [block["name"] for block in blocks] == list(result.solution.order)
    assert {event["name"] for event in counts} == {"live bytes"}
    assert [event["args"]["live"] for event in counts[0::2]] == STABLE
    assert [event["args"]["live"] for event in counts[1::2]] == TRANSIENT
    assert [event["ts"] for event in counts] == sorted(event["ts"] for event in counts)
    for before, after in pairwise(blocks):
        assert before["ts"] + before["dur"] <= after["ts"]
