"""Models of torchvision, timm, diffusers and keras.applications with random weights; none is read or downloaded.

PyTorch models are built on the meta device. Sizes are those of each package's defaults; diffusers' seven models are
the sizes of published pipelines or smaller.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import opweave as ow
from benchmarks.models.torchvision_operators import stand_in
from benchmarks.tables import data

Loader = Callable[[], ow.OpGraph]

DETECTORS = ("rcnn", "retinanet", "ssd", "fcos")


def torchvision_cases() -> Iterator[tuple[str, Loader]]:
    """Every model of torchvision but the quantised ones, whose kernels belong to one processor."""
    stand_in()
    from torchvision import models

    for name in models.list_models():
        if not name.startswith("quantized"):
            yield name, partial(load_torchvision, name)


def load_torchvision(name: str) -> ow.OpGraph:
    """Build a model of torchvision and load its graph."""
    import torch
    from torchvision import models

    on_backbones = models.list_models(module=models.segmentation) + models.list_models(module=models.detection)
    more = {"weights_backbone": None} if name in on_backbones else {}
    _regnets_on_cpu()
    with torch.device("meta"):
        model = models.get_model(name, weights=None, **more).eval()
        return ow.load(model, args=_images(name, model))


@cache
def _regnets_on_cpu() -> None:
    """Let RegNets compute their widths, which are values of tensors, in main memory."""
    import torch
    from torchvision.models import regnet

    widths = regnet.BlockParams.from_init_params

    def computed(*args: Any, **kwargs: Any) -> Any:
        with torch.device("cpu"):
            return widths(*args, **kwargs)

    regnet.BlockParams.from_init_params = computed


def _images(name: str, model: Any) -> tuple[object, ...]:
    import torch

    sizes = data("zoo")["sizes"]
    shape = sizes.get(name, (3, 224, 224))
    if type(model).__module__.startswith("torchvision.models.video") and name not in sizes:
        shape = (3, 8, 112, 112)
    if any(word in name for word in DETECTORS):
        return ([torch.empty(3, 320, 320)],)
    return (torch.empty(1, *shape),) * (2 if "raft" in name else 1)


def timm_cases() -> Iterator[tuple[str, Loader]]:
    """The first model of 40 architectures of timm, evenly from its list of modules."""
    stand_in()
    import timm

    modules = [module for module in sorted(timm.list_modules()) if timm.list_models(module=module)]
    for step in range(40):
        name = sorted(timm.list_models(module=modules[step * len(modules) // 40]))[0]
        yield name, partial(load_timm, name)


def load_timm(name: str) -> ow.OpGraph:
    """Build a model of timm and load its graph."""
    import timm
    import torch

    with torch.device("meta"):
        model = timm.create_model(name).eval()
        return ow.load(model, args=(torch.empty(1, *model.pretrained_cfg["input_size"]),))


def diffusers_cases() -> Iterator[tuple[str, Loader]]:
    """Two U-Nets, three autoencoders and two transformers of diffusers."""
    stand_in()
    for name in data("zoo")["diffusers"]:
        yield name, partial(load_diffusers, name)


def load_diffusers(name: str) -> ow.OpGraph:
    """Build a model of diffusers and load its graph."""
    import diffusers
    import torch

    about = data("zoo")["diffusers"][name]
    whole = ("timestep", "class_labels")
    with torch.device("meta"):
        model = getattr(diffusers, name)(**about["settings"]).eval()
        inputs = {
            word: torch.zeros(shape, dtype=torch.long if word in whole else torch.float32)
            for word, shape in about["inputs"].items()
        }
        return ow.load(model, kwargs=inputs)


def keras_cases() -> Iterator[tuple[str, Loader]]:
    """Every application of Keras, with inputs of open height and width where the application leaves them open."""
    os.environ.setdefault("KERAS_BACKEND", "torch")
    from keras import applications

    for name in sorted(dir(applications)):
        if name[0].isupper():
            yield name, partial(load_keras, name, {"batch": 1, "*": 224})


def load_keras(name: str, dims: dict[str, int]) -> ow.OpGraph:
    """Build an application and load its graph."""
    os.environ.setdefault("KERAS_BACKEND", "torch")
    from keras import applications

    return ow.load(getattr(applications, name)(weights=None), dims=dims)
