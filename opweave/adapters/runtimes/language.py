"""Where a plan keeps the groups of a language model, in the form that runtimes ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from opweave.problems.errors import InvalidInputError
from opweave.problems.language.model import LanguageModel, Layer
from opweave.problems.placement.spec import Schedule
from opweave.problems.result import Result
from opweave.problems.solution import solution_of

LanguagePlan = Schedule | Result[Schedule] | Mapping[str, str]
"""A schedule, a result with one, or devices by the ids of groups: "embedding", "layers.0.attention", ..., "head"."""


def homes_of(model: LanguageModel, plan: LanguagePlan) -> dict[str, str]:
    """The device of every group, by its id, in the order in which the groups run.

    Raises
    ------
    InvalidInputError
        When the plan is one of another model.
    """
    given = plan if isinstance(plan, Mapping) else solution_of(plan, Schedule).device
    ids = ["embedding"]
    ids += [f"layers.{number}.{group.role}" for number, layer in enumerate(model.layers) for group in layer.groups]
    ids.append("head")
    missing = next((name for name in ids if name not in given), None)
    if missing is not None or len(given) != len(ids):
        extra = next((name for name in given if name not in set(ids)), "")
        wrong = f"says nothing about {missing!r}" if missing is not None else f"lists {extra!r:.80}"
        raise InvalidInputError(f"the plan {wrong} of {model.name}; it is one of another model: plan this one again")
    return {name: given[name] for name in ids}


def whole_layers(model: LanguageModel, homes: Mapping[str, str], runtime: str) -> list[str]:
    """The device of every layer, for runtimes that keep a layer together.

    Raises
    ------
    InvalidInputError
        When a layer is divided; the message names it.
    """
    found = []
    for number, layer in enumerate(model.layers):
        devices = dict.fromkeys(homes[f"layers.{number}.{group.role}"] for group in layer.groups)
        if len(devices) > 1:
            raise InvalidInputError(
                f"layer {number} is divided between {' and '.join(map(repr, devices))}, but {runtime} keeps a layer on "
                "one device; plan with whole layers"
            )
        found.append(next(iter(devices)))
    return found


def stages_of(devices: Sequence[str], runtime: str) -> list[tuple[str, int]]:
    """Devices in the order in which they run, each with its number of layers.

    Raises
    ------
    InvalidInputError
        When a device has layers before and after those of another one.
    """
    stages = [(device, len(list(layers))) for device, layers in groupby(devices)]
    seen: set[str] = set()
    for device, _ in stages:
        if device in seen:
            raise InvalidInputError(
                f"device {device!r} has layers before and after those of another device, but {runtime} gives each "
                "device one block of layers; plan with one block for each"
            )
        seen.add(device)
    return stages


def exchanged(model: LanguageModel, homes: Mapping[str, str]) -> dict[str, str]:
    """An equally fast plan in which layers that keep groups elsewhere stand first, so that few words say which.

    Layers are exchanged if they are equal, their attention is on one device, and so is what follows them: then nothing
    is sent that was not sent before, and every device holds as many bytes as before.

    Examples
    --------
    >>> from opweave.adapters.llm.config import from_config
    >>> sizes = dict.fromkeys(("hidden_size", "intermediate_size", "num_attention_heads", "vocab_size"), 4)
    >>> tiny = from_config({"model_type": "llama", "num_hidden_layers": 4, **sizes}, "tiny")
    >>> homes = {f"layers.{n}.{role}": "gpu" for n in range(4) for role in ("attention", "feed_forward")}
    >>> found = exchanged(tiny, homes | {"layers.2.feed_forward": "cpu"})
    >>> [name for name, device in found.items() if device == "cpu"]
    ['layers.0.feed_forward']
    """
    found = dict(homes)
    attention = [homes[f"layers.{number}.{layer.first}"] for number, layer in enumerate(model.layers)]
    then = [*attention[1:], homes.get("head")]
    for _, block in groupby(range(len(attention)), key=attention.__getitem__):
        alike: dict[Layer, list[int]] = {}
        for number in block:
            if then[number] != attention[number]:
                continue
            alike.setdefault(model.layers[number], []).append(number)
        for layer, numbers in alike.items():
            roles = [group.role for group in layer.groups]
            ways = [tuple(homes[f"layers.{number}.{role}"] for role in roles) for number in numbers]
            ways.sort(key=lambda way: (sum(device == way[0] for device in way), way))
            for number, way in zip(numbers, ways, strict=True):
                found |= {f"layers.{number}.{role}": device for role, device in zip(roles, way, strict=True)}
    return found


def layer_pattern(numbers: Sequence[int]) -> str:
    """Write a short regular expression for some layer numbers and no others.

    Examples
    --------
    >>> layer_pattern([3]), layer_pattern([7, 8, 9, 10, 11, 30])
    ('3', '([789]|1[01]|30)')
    """
    by_tens: dict[int, list[str]] = {}
    for number in sorted(set(numbers)):
        by_tens.setdefault(number // 10, []).append(str(number % 10))
    parts = [
        f"{tens or ''}{digits[0] if len(digits) == 1 else '[' + ''.join(digits) + ']'}".replace("[0123456789]", "[0-9]")
        for tens, digits in by_tens.items()
    ]
    return parts[0] if len(parts) == 1 else f"({'|'.join(parts)})"
