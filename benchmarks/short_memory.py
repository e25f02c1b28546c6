"""Gaps of placements where no device holds the whole model: models exported on the meta device, without weights.

Models come from transformers and torchvision, which opweave does not depend on; ``--smoke`` needs neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import opweave as ow
from benchmarks.models.vision_zoo import Loader, load_torchvision
from benchmarks.tables import GRAPHS, data, milliseconds, percent, run_parts, table

TOKENS = 128


def language_model(settings: Mapping[str, Any]) -> ow.OpGraph:
    """A model of transformers with 128 tokens, 30 s of sound or an image of 224 x 224."""
    import torch
    import transformers

    kind = getattr(transformers, settings["class"])
    config = kind.config_class(**{name: each for name, each in settings.items() if name != "class"}, use_cache=False)
    tokens = torch.ones(1, TOKENS, dtype=torch.long)
    shapes = {"pixel_values": (1, 3, 224, 224), "input_features": (1, 80, 3000)}
    with torch.device("meta"):
        model = kind(config).eval()
        first = model.main_input_name
        given = {first: torch.ones(shapes[first]) if first in shapes else tokens}
        return ow.load(model, kwargs=given | ({"decoder_input_ids": tokens} if config.is_encoder_decoder else {}))


def on_four(graph: ow.OpGraph, speeds: Iterable[float], shares: Iterable[float], rates: list[float]) -> ow.Placement:
    """Four devices with these FLOP/s, shares of the weights as their memory, and bytes per second of their links."""
    weights, devices = sum(parameter.bytes for parameter in graph.parameters), list[ow.Device]()
    for name, speed, share in zip("abcd", speeds, shares, strict=True):
        room = int(share * weights)
        devices.append(ow.Device(name=name, flops_per_second=speed, memory_bandwidth=speed / 40, memory_bytes=room))
    cluster = ow.Cluster(devices=devices, rates=rates, latency=0.0005)
    return ow.Placement(graph, cluster, ow.Costs.roofline(graph, cluster), memory="parameters")


@table(
    "Gaps where memory is short", "model | operators | devices | plan, ms | bound, ms | gap", "20 s with one thread."
)
def short_memory(*, smoke: bool) -> Iterable[tuple[object, ...]]:
    """Every model on four unlike devices and on four equal ones; a dash where the largest operator fits on none."""
    sizes = data("short_memory")
    loaders: dict[str, Loader] = {name: partial(language_model, each) for name, each in sizes["language"].items()}
    loaders |= {name: partial(load_torchvision, each) for name, each in sizes["vision"].items()}
    if smoke:
        loaders = {"T5-small": partial(ow.load, GRAPHS / "torch/t5_small.export.json.gz")}
    for name, load in loaders.items():
        graph = load()
        unlike = on_four(graph, (20e12, 6e12, 1e12, 0.3e12), (0.35, 0.5, 0.6, 0.9), [120e6, 100e6, 80e6, 60e6])
        for devices, problem in ("unlike", unlike), ("equal", on_four(graph, [6e12] * 4, [0.3] * 4, [100e6] * 4)):
            found = ow.solve(problem, time_limit=1.0 if smoke else 20.0, threads=1)
            times = milliseconds(found.objective), milliseconds(found.bound)
            yield name, len(graph.operators), devices, *times, percent(found.gap)


if __name__ == "__main__":
    run_parts(__doc__, short_memory)
