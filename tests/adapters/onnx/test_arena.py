"""The arena of ONNX Runtime, played: its rules one by one, and byte for byte as the runtime's own counters have it."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest

onnx = pytest.importorskip("onnx")

import opweave as ow  # noqa: E402
from opweave.adapters.onnx.arena import NEVER, ArenaUse, Request, arena_use  # noqa: E402
from tests.adapters.onnx.nets import random_net, random_order, saved  # noqa: E402

MIB = 2**20


@pytest.mark.parametrize(
    ("requests", "peak", "held"),
    [
        ([], 0, 0),
        ([(0, 1, 0)], 0, 0),
        ([(0, 1, 1)], 256, MIB),
        ([(0, 1, MIB // 2), (0, 1, MIB // 2)], MIB, MIB),  # exactly half is split
        ([(0, 1, MIB // 2 + 1)], MIB, MIB),  # a byte more is not
        ([(0, NEVER, 3 * MIB)], 4 * MIB, 4 * MIB),  # doubled until it fits
        ([(0, 1, MIB), (0, 1, MIB)], 2 * MIB, 3 * MIB),  # a region that was not doubled doubles the next one
        ([(0, 9, 256), (0, 1, 512), (1, 2, 512)], 768, MIB),  # what was returned serves again
        ([(0, 1, 256), (0, 1, 256), (0, 9, 256), (1, 2, 512)], 768, MIB),  # free neighbours merge
        ([(0, 1, 700), (0, 9, 256), (1, 2, 500)], 1024, MIB),  # the smallest free block that fits, and all of it
        ([(0, 1, 300 * MIB)], 300 * MIB, 512 * MIB),  # never 128 MiB unused
    ],
)
def test_the_rules(requests: list[tuple[float, float, int]], peak: int, held: int) -> None:
    assert arena_use(Request(*each) for each in requests) == ArenaUse(peak, held)


@pytest.mark.parametrize("seed", range(20))
def test_blocks_cover_the_requests_and_regions_the_blocks(seed: int) -> None:
    draw = random.Random(seed)
    begins = sorted(draw.randrange(100) for _ in range(200))
    requests = [Request(begin, begin + draw.randint(1, 30), int(math.exp(draw.uniform(0, 17)))) for begin in begins]
    live = max(sum(each.bytes for each in requests if each.begin <= at < each.end) for at in range(130))
    rounded = max(
        sum(-(-each.bytes // 256) * 256 for each in requests if each.begin <= at < each.end) for at in range(130)
    )
    use = arena_use(requests)
    assert live <= rounded <= use.peak_bytes <= min(use.held_bytes, 2 * rounded)
    assert use.held_bytes % MIB == 0


@pytest.mark.frameworks
@pytest.mark.parametrize("seed", range(6))
def test_the_runtime_agrees_to_the_byte(tmp_path: Path, seed: int) -> None:
    pytest.importorskip("onnxruntime")
    from opweave.adapters.onnx.nodes import named_model, reordered
    from opweave.adapters.onnx.session import onnx_session_options, profiled_run, random_feeds

    path = saved(random_net(seed, rows=draw_rows(seed)), tmp_path / "net.onnx")
    graph = ow.load(path)
    ordering = ow.Ordering(order=random_order(graph, seed))
    onnx.save(reordered(named_model(path), ordering), tmp_path / "planned.onnx")
    feeds = random_feeds(onnx.load(path), seed)
    run = profiled_run(tmp_path / "planned.onnx", onnx_session_options(), feeds, runs=1)
    assert run.peak_bytes in (ow.onnx.onnx_arena(path, ordering).peak_bytes, None)


def draw_rows(seed: int) -> int:
    """Sizes at which blocks are rounded, split and added."""
    return (3, 100, 999, 5000, 9001, 20_011)[seed]


def test_an_order_that_does_not_fit_the_model_is_refused(tmp_path: Path) -> None:
    path = saved(random_net(0), tmp_path / "net.onnx")
    with pytest.raises(ow.InvalidInputError, match="cannot be carried out"):
        ow.onnx.onnx_arena(path, ow.Ordering(order=("a",)))
