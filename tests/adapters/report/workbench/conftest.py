"""One browser for all tests of the page, and pages of small problems."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import opweave as ow
from opweave.adapters.report.views import show
from opweave.adapters.report.workbench.page import page
from tests.adapters.report.workbench.browser import Browser, chromium

Open = Callable[..., Browser]


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A headless Chromium."""
    if chromium() is None:
        pytest.skip("there is no Chromium here")
    running = Browser(tmp_path_factory.mktemp("profile"))
    yield running
    running.close()


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Open the page of a result; afterwards it must have asked for nothing, and complained about nothing."""

    def go(result: ow.Result, width: int = 1300, theme: str = "light") -> Browser:
        path = tmp_path / "report.html"
        path.write_bytes(page(show(result.answers, result), ["result.json"]).encode("utf-8", "backslashreplace"))
        browser.open(path, width=width, theme=theme)
        browser.settle()
        return browser

    yield go
    browser.js("try { localStorage.clear() } catch { /* a test has taken it away */ }")
    browser.settle()
    assert browser.errors == []
    assert [url for url in browser.requests if not url.endswith("/report.html")] == []


def ladder(steps: int = 40, name: str = "layers.{layer}.{kind}") -> ow.OpGraph:
    """Blocks with a short and a long way around, in modules."""
    tensors, ops, last = [ow.Tensor(id="image", bytes=6000)], [], "image"
    for layer in range(steps // 4):
        ends = [last]
        for kind, reads in (("norm", 0), ("conv", 1), ("act", 2), ("add", None)):
            made = name.format(layer=layer, kind=kind)
            inputs = [ends[reads]] if reads is not None else [ends[0], ends[3]]
            tensors.append(ow.Tensor(id=f"{made} out", bytes=1000 * (1 + (layer * 7 + len(kind)) % 5)))
            ops.append(
                ow.Operator(
                    id=made, kind=kind, inputs=inputs, outputs=[f"{made} out"], flops=1e6, module=f"layers.{layer}"
                )
            )
            ends.append(f"{made} out")
        last = ends[-1]
    return ow.OpGraph(name="ladder", operators=ops, tensors=tensors, outputs=[last])


def machines(count: int = 2) -> ow.Cluster:
    devices = [
        ow.Device(name=f"gpu {k}", flops_per_second=1e9 / (k + 1), memory_bandwidth=1e9, memory_bytes=400_000)
        for k in range(count)
    ]
    return ow.Cluster(devices=devices, shared=1e8)
