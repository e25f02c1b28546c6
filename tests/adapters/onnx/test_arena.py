"""The arena of ONNX Runtime, played: its rules one by one, and byte for byte as the runtime's own counters have it."""

from __future__ import annotations

import math
import random
from pathlib import Path

import numpy as np
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


@pytest.mark.frameworks
@pytest.mark.parametrize("signs", [("uint8", "int8"), ("uint8", "uint8"), ("int8", "int8")])
@pytest.mark.parametrize("last", [0, 1])
def test_the_runtime_agrees_on_8_bit_convolutions(tmp_path: Path, signs: tuple[str, str], last: int) -> None:
    pytest.importorskip("onnxruntime")
    from opweave.adapters.onnx.session import onnx_session_options, profiled_run, random_feeds

    model = quantized_net(signs, last)
    onnx.save(model, tmp_path / "net.onnx")
    order = ow.Ordering(order=[op.id for op in ow.load(tmp_path / "net.onnx").operators])
    run = profiled_run(tmp_path / "net.onnx", onnx_session_options(), random_feeds(model, 0), runs=1)
    assert run.peak_bytes == ow.onnx.onnx_arena(tmp_path / "net.onnx", order).peak_bytes


def quantized_net(signs: tuple[str, str], last: int) -> onnx.ModelProto:
    """Four convolutions: of an image with 3 channels, in groups, depthwise, and pointwise without whole lanes."""
    helper, kinds = onnx.helper, {name: np.dtype(name) for name in signs}
    zeros = {"s": np.float32(0.01), "z": np.zeros((), kinds[signs[0]]), "n": np.zeros((), kinds[signs[1]])}
    held = [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in zeros.items()]
    nodes, made = [], "x"
    for place, (shape, group, window) in enumerate(
        (((64, 3), 1, 3), ((32, 32), 2, 3), ((32, 1), 32, 5), ((20, 32), 1, 1))
    ):
        weights = np.ones((*shape, window, window), kinds[signs[1]])
        held.append(onnx.numpy_helper.from_array(weights, f"w{place}"))
        reads = [made, "s", "z", f"w{place}", "s", "n", "s", "z"]
        made, pads = f"y{place}", [window // 2] * 4
        domain, more = ("com.microsoft", {"channels_last": 1}) if last else ("", {})
        nodes.append(
            helper.make_node("QLinearConv", reads, [made], made, domain=domain, pads=pads, group=group, **more)
        )
    kind = helper.np_dtype_to_tensor_dtype(kinds[signs[0]])
    sizes = [(1, 30, 30, channels) if last else (1, channels, 30, 30) for channels in (3, 20)]
    values = [helper.make_tensor_value_info(name, kind, size) for name, size in zip(("x", made), sizes, strict=True)]
    graph = helper.make_graph(nodes, "net", values[:1], values[1:], held)
    domains = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=domains, ir_version=10)


def draw_rows(seed: int) -> int:
    """Sizes at which blocks are rounded, split and added."""
    return (3, 100, 999, 5000, 9001, 20_011)[seed]


def test_an_order_that_does_not_fit_the_model_is_refused(tmp_path: Path) -> None:
    path = saved(random_net(0), tmp_path / "net.onnx")
    with pytest.raises(ow.InvalidInputError, match="cannot be carried out"):
        ow.onnx.onnx_arena(path, ow.Ordering(order=("a",)))
