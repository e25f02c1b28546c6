"""The page of a report: its size, and the seconds until its views stand in a headless Chromium.

Run ``python -m benchmarks.report_page``; ``--smoke`` uses 2,000 operators instead of 20,000, and ``picture`` writes a
picture of the demonstration's page into the folder for temporary files instead. Seconds in the browser are
processor time of its main thread, the best of three, and need Debian's ``chromium``; without it they are left out.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import opweave as ow
from benchmarks.tables import show as show_table
from opweave.adapters.report.views import show
from opweave.adapters.report.workbench.page import page, script
from tests.adapters.report.workbench.browser import Browser, chromium

WORDS = ("attention", "mlp", "norm", "residual")
KINDS = ("MatMul", "Add", "Softmax", "Mul")


def model(count: int) -> ow.OpGraph:
    """A deep model with long names, branches and modules."""
    draw = random.Random(1)
    tensors, operators, live = [ow.Tensor(id="images", bytes=600_000)], [], ["images"]
    for number in range(count):
        layer, part = divmod(number, 200)
        module = f"model.layers.{layer}.{WORDS[part % 4]}"
        name = f"{module}.block_{part // 4}/{KINDS[number % 4]}_{number}"
        made = f"{name}_output_0"
        reads = dict.fromkeys(draw.choice(live[-12:]) for _ in range(draw.choice((1, 2, 2, 3))))
        tensors.append(ow.Tensor(id=made, bytes=draw.randrange(1, 4000) * 1024))
        kind, work = KINDS[number % 4], draw.randrange(1, 1000) * 1e6
        operators.append(ow.Operator(id=name, kind=kind, inputs=list(reads), outputs=[made], flops=work, module=module))
        live.append(made)
    return ow.OpGraph(name=f"{count:,} operators", operators=operators, tensors=tensors, outputs=live[-1:])


def results(count: int) -> Iterator[ow.Result[Any]]:
    """Plans that are quick to make, because only their pages matter."""
    graph = model(count)
    devices = [ow.Device(name=f"gpu {k}", flops_per_second=4e12 / (k + 1), memory_bandwidth=3e11) for k in range(4)]
    cluster = ow.Cluster(devices=devices, shared=12e9)
    yield ow.solve(ow.MemoryOrdering(graph=graph), solver="lpmf")
    ordering = ow.MemoryOrdering(graph=graph)
    yield ow.solve(ow.layout_of(ordering, ow.solve(ordering, solver="definition")), solver="tflm")
    yield ow.solve(ow.Placement(graph=graph, cluster=cluster, costs=ow.Costs.roofline(graph, cluster)), solver="heft")


def row(result: ow.Result[Any], folder: Path, browser: Browser | None) -> tuple[object, ...]:
    """Problem, megabytes, seconds to write, and seconds until the page is ready."""
    view = show(result.answers, result)
    view.before()  # the baseline is solved before the clock starts
    begin = time.process_time()
    text = page(view, ["result.json"])
    took = time.process_time() - begin
    path = folder / "report.html"
    path.write_text(text, encoding="utf-8")
    ready = "-" if browser is None else f"{min(seconds(browser, path) for _ in range(3)):.2f} s"
    return result.problem, f"{path.stat().st_size / 1e6:.2f} MB", f"{took:.1f} s", ready


def seconds(browser: Browser, path: Path) -> float:
    """Processor seconds of the browser's main thread until the views stand and are drawn."""
    browser("Page.navigate", url="about:blank")
    browser("Performance.disable")
    browser("Performance.enable", timeDomain="threadTicks")
    browser.open(path)
    browser.settle()
    found = {each["name"]: each["value"] for each in browser("Performance.getMetrics")["metrics"]}
    return float(found["TaskDuration"])


def picture(path: Path) -> None:
    """The page of the demonstration, with what lives at the peak."""
    with resources.as_file(resources.files("opweave.adapters") / "data" / "nasnetmobile.json.gz") as file:
        problem = ow.MemoryOrdering(graph=ow.load(file))
    result = ow.solve(problem, time_limit=30)
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "report.html"
        file.write_text(page(show(problem, result), ["order.json", "trace.json"]), encoding="utf-8")
        browser = Browser(Path(name) / "profile")
        browser.open(file, width=1300, height=1010)
        browser.js("views.memory.goToPeak()")
        browser.settle()
        browser.settle()
        browser.screenshot(path)
        browser.close()


def main(*, smoke: bool) -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        browser = None if chromium() is None else Browser(folder / "profile")
        rows = [row(result, folder, browser) for result in results(2000 if smoke else 20_000)]
        if browser is not None:
            browser.close()
    show_table("Pages of reports", ("problem", "page", "written in", "ready in"), rows)
    print(f"script: {len(script().encode()):,} bytes")


if __name__ == "__main__":
    if "picture" in sys.argv:
        picture(Path(tempfile.gettempdir()) / "report.png")
    else:
        main(smoke="--smoke" in sys.argv)
