"""Small language models as placement problems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import strategies as st

import opweave as ow
from opweave.problems.language.model import Cache, LanguageModel, Layer, Weights
from opweave.problems.language.workload import Workload, language_graph, parts
from opweave.problems.placement.spec import Placement

DENSE = ("attention", "feed_forward")
EXPERTS = ("attention", "experts")
ROUTED = ("attention", "router", "experts")
WHOLE = ("attention", "router", "experts", "feed_forward")


def model_of(
    layers: Sequence[tuple[str, ...]], sizes: Mapping[str, int], *, tied: int = 0, cache: int = 1, hidden: int = 8
) -> LanguageModel:
    """A model whose groups have these bytes by role."""

    def weights(role: str) -> Weights:
        size = sizes.get(role, 0)
        return Weights(role=role, bytes=size, elements=size, flops=float(size))  # type: ignore[arg-type]

    kept = Cache(key_width=cache, value_width=0)
    made = [Layer(groups=[weights(role) for role in roles], cache=kept) for roles in layers]
    table, head = weights("embedding"), weights("head")
    more = {"tied_bytes": tied, "hidden_bytes": hidden, "vocabulary": 16}
    return LanguageModel(name="tiny", layers=made, embedding=table, head=head, **more)


def placed(
    model: LanguageModel,
    memory: Sequence[int | None],
    speed: Sequence[float],
    links: Sequence[Sequence[float]],
    *,
    latency: float = 0.0,
    transfers: str = "delay",
    context: int = 4,
) -> Placement:
    """Decode one token; a device needs its bytes divided by its speed."""
    names, work = [f"d{k}" for k in range(len(memory))], Workload(context=context)
    costs = {
        part.id: {name: part.read_bytes / rate for name, rate in zip(names, speed, strict=True)}
        for part in parts(model, work)
    }
    devices = [ow.Device(name=name, memory_bytes=size) for name, size in zip(names, memory, strict=True)]
    return Placement(
        graph=language_graph(model, work),
        cluster=ow.Cluster(devices=devices, bandwidth=links, latency=latency),
        costs=ow.Costs.from_table(costs),
        transfers=transfers,  # type: ignore[arg-type]
        memory="parameters",
    )


@st.composite
def small_problems(draw: st.DrawFn) -> Placement:
    """At most 9 operators on at most 3 devices."""
    kind = draw(st.sampled_from([DENSE, EXPERTS, ROUTED, WHOLE]))
    most = {2: 3, 3: 2, 4: 1}[len(kind)]
    layers = [kind] * draw(st.integers(1, most))
    if draw(st.booleans()):
        layers = [DENSE, *layers]
    sizes = {role: draw(st.integers(0, 30)) for role in (*WHOLE, "embedding", "head")}
    tied = draw(st.integers(0, min(sizes["embedding"], sizes["head"])))
    count = draw(st.integers(1, 3))
    total = sum(sizes[role] for roles in layers for role in roles) + sizes["embedding"] + sizes["head"]
    memory = draw(st.lists(st.none() | st.integers(0, total + 60), min_size=count, max_size=count))
    speed = draw(st.lists(st.floats(0.5, 20.0), min_size=count, max_size=count))
    links = [[draw(st.sampled_from([0.0, 1.0, 4.0, 100.0])) for _ in range(count)] for _ in range(count)]
    model = model_of(layers, sizes, tied=tied, cache=draw(st.integers(0, 3)), hidden=draw(st.integers(1, 9)))
    return placed(model, memory, speed, links, latency=draw(st.sampled_from([0.0, 0.1, 3.0])))


@st.composite
def hostile_problems(draw: st.DrawFn) -> Placement:
    """Sizes, times and links that differ by many orders of magnitude, or are 0."""
    layers = [draw(st.sampled_from([DENSE, EXPERTS]))] * draw(st.integers(1, 3))
    size = st.sampled_from([0, 1, 3, 10**6, 10**6 + 1, 2**40, 2**50])
    sizes = {role: draw(size) for role in (*WHOLE, "embedding", "head")}
    count = draw(st.integers(1, 3))
    memory = draw(st.lists(st.none() | size, min_size=count, max_size=count))
    speed = draw(st.lists(st.sampled_from([1e3, 1e6, 1e12, 1e25]), min_size=count, max_size=count))
    links = [[draw(st.sampled_from([0.0, 1.0, 1e9, 1e12])) for _ in range(count)] for _ in range(count)]
    cache, hidden = draw(st.sampled_from([0, 1, 2**30])), draw(st.sampled_from([1, 2**20]))
    model = model_of(layers, sizes, cache=cache, hidden=hidden)
    return placed(model, memory, speed, links, latency=draw(st.sampled_from([0.0, 1e-6, 1e3])))
