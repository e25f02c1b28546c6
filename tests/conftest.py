"""One hypothesis profile for all tests (no deadlines, repeatable runs in CI); loops are compiled before the first."""

from __future__ import annotations

import gc
import os

import pytest
from hypothesis import HealthCheck, settings

import opweave as ow

settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("default"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")


def pytest_configure(config: pytest.Config) -> None:
    """Compile what is not compiled yet, half a minute once on a machine: tests of searches would crawl without."""
    if not hasattr(config, "workerinput") and os.environ.get("OPWEAVE_COMPILE") != "never":
        ow.warm(jobs=2)


def pytest_collection(session: pytest.Session) -> None:
    """Collect no garbage while tests are imported: there is none, and looking for it takes a fifth of the time."""
    gc.disable()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Collect garbage again, but not among what was imported."""
    gc.freeze()
    gc.enable()
