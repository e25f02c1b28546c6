"""One hypothesis profile for all tests (no deadlines, repeatable runs in CI); loops are compiled before the first.

A loop of the package that is called with arguments it is not compiled for, such as an array that is not contiguous,
runs uncompiled and logs a line. Here the line raises.
"""

from __future__ import annotations

import gc
import logging
import os

import pytest
from hypothesis import HealthCheck, settings

import opweave as ow

settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("default"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")


class Refusals(logging.Handler):
    """Raises where a loop of the package logs that it got arguments that it is not compiled for."""

    def emit(self, record: logging.LogRecord) -> None:
        words = record.getMessage()
        if words.startswith("opweave.") and "not compiled for" in words:
            raise AssertionError(words)


def pytest_configure(config: pytest.Config) -> None:
    """Compile what is not compiled yet, half a minute once on a machine: tests of searches would crawl without."""
    logging.getLogger("opweave").addHandler(Refusals())
    if not hasattr(config, "workerinput") and os.environ.get("OPWEAVE_COMPILE") != "never":
        ow.warm(jobs=2)


def pytest_collection(session: pytest.Session) -> None:
    """Collect no garbage while tests are imported: there is none, and looking for it takes a fifth of the time."""
    gc.disable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the tests that take longest, so that none of them runs alone at the end."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Collect garbage again, but not among what was imported."""
    gc.freeze()
    gc.enable()
