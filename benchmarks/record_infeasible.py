"""A pytest plugin that collects the infeasible problems of the test suite for ``benchmarks.conflicts``.

``python -m pytest -p benchmarks.record_infeasible tests`` writes ``tests/data/infeasible/problems.json.gz``: at most
:data:`MOST` problems of every test, without those whose rules only live in a test's module.
"""

from __future__ import annotations

import gzip
import importlib
import json
from typing import Any

import pytest

import opweave as ow
from benchmarks.conflicts import INFEASIBLE

MOST = 8

_FOUND: dict[str, dict[str, None]] = {}
_TEST = [""]

_module = importlib.import_module("opweave.solvers.solve")
_result_of = _module.result_of


def _recording(problem: ow.Problem[Any, Any], run: ow.Run, **rest: Any) -> ow.Result[Any]:
    result: ow.Result[Any] = _result_of(problem, run, **rest)
    own = any(not type(each).__module__.startswith("opweave.") for each in (problem, *problem.constraints))
    texts = _FOUND.setdefault(_TEST[0], {})
    if result.status is ow.Status.INFEASIBLE and run.extend is None and not own and len(texts) < MOST:
        texts[problem.model_dump_json()] = None
    return result


def pytest_configure() -> None:
    """Listen to every solve."""
    setattr(_module, "result_of", _recording)  # noqa: B010  (a module has no such attribute for type checkers)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Note which test is running."""
    _TEST[0] = item.nodeid.partition("[")[0]


def pytest_unconfigure() -> None:
    """Write what was found, each problem once."""
    specs = {text: test for test, texts in sorted(_FOUND.items()) for text in texts}
    rows = [{"test": test, "spec": json.loads(text)} for text, test in specs.items()]
    INFEASIBLE.write_bytes(gzip.compress(json.dumps(rows).encode(), mtime=0))
