"""One hypothesis profile for all tests (no deadlines, repeatable runs in CI), and one folder of compiled loops."""

from __future__ import annotations

import gc
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("default", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("default"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")


ROOT = Path(__file__).resolve().parents[1]

COMPILE = """
import sys
from opweave.solvers.loops import loops_of
for each in loops_of()[int(sys.argv[1]) :: 2]:
    each.compile()
"""


def pytest_configure(config: pytest.Config) -> None:
    """Keep compiled loops in a folder for the present sources: numba does not see that a helper in a file changed."""
    sources = sorted(path for path in (ROOT / "opweave").rglob("*.py") if b"solvers.loops import" in path.read_bytes())
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:12]
    os.environ.setdefault("NUMBA_CACHE_DIR", str(ROOT / ".loops" / digest))


def pytest_sessionstart(session: pytest.Session) -> None:
    """Before workers run all tests, compile the loops by halves: each worker would compile all of them."""
    config = session.config
    whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS and config.getoption("numprocesses", None)
    if whole and not Path(os.environ["NUMBA_CACHE_DIR"]).exists():
        halves = [subprocess.Popen([sys.executable, "-c", COMPILE, half], cwd=ROOT) for half in "01"]
        for each in halves:
            each.wait()


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
