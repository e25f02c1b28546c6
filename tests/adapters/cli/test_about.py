"""The lists of solvers and formulations as JSON."""

from __future__ import annotations

import json

from tests.adapters.conftest import Run


def test_lists_as_json(opweave: Run) -> None:
    for name in ("solvers", "formulations"):
        rows = json.loads(opweave(name, "--problem", "pipeline", "--json").out)
        assert {row["problem"] for row in rows} == {"pipeline"}
        assert rows == json.loads(opweave(name, "--problem", "pipeline", "--json").out)
    rows = json.loads(opweave("solvers", "--problem", "pipeline", "--constraints", "--json").out)
    assert "auto" in {row["solver"] for row in rows}
