"""The instances of the scorecard: all problems, and users' rules in the five problems of the papers.

Public instances lie in the folder that the environment variable ``OPWEAVE_INSTANCES`` names.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import opweave as ow
from benchmarks.edge_networks import MEGABYTE, heterogeneous, keras, random_chain
from benchmarks.generators import Builder, layered_dag, randomly_wired, scattered
from benchmarks.measured import measured
from benchmarks.memory_layout import family, pooled, random_layout
from benchmarks.networks import network
from benchmarks.readers import folder_of, load_job_shop
from benchmarks.serving import case as helix
from benchmarks.serving import random_case
from benchmarks.shapes import batched_mappings, in_tree, series_parallel, skips, slicings, times, unlike
from benchmarks.slicing import problem_of as on_boards
from benchmarks.stacked import Stack, stacked
from benchmarks.tables import GRAPHS
from benchmarks.transformers import transformer
from opweave.problems.placement.spec import TransferModel

AnyProblem = ow.extend.Problem[Any, Any]
Make = Callable[[], AnyProblem]
TOLERANCE = 1e-6
"""Relative tolerance of limits."""


class Rule(ow.Constraint):
    """A figure of the plan is at least and at most something; it can be written as rows, too."""

    least: float | None = None
    most: float | None = None

    def figure(self, problem: Any, solution: Any) -> float:
        """The figure of a plan."""
        raise NotImplementedError

    def term(self, model: Any) -> Any:
        """The same with variables."""
        raise NotImplementedError

    def violations(self, problem: Any, solution: Any) -> Iterator[ow.extend.Violation]:
        """What a limit is missed by."""
        found = self.figure(problem, solution)
        if self.least is not None and found < self.least - TOLERANCE * abs(self.least):
            yield self.broken(f"{found:g} is below {self.least:g}", self.least - found)
        if self.most is not None and found > self.most + TOLERANCE * abs(self.most):
            yield self.broken(f"{found:g} is above {self.most:g}", found - self.most)

    def write(self, model: Any) -> None:
        """A row for each limit."""
        if self.least is not None:
            model.add(self.term(model) >= self.least)
        if self.most is not None:
            model.add(self.term(model) <= self.most)


class OnDevice(Rule):
    """What ``device`` does of all operators."""

    device: str
    handle: ClassVar[str] = "on"

    def figure(self, problem: Any, solution: Any) -> float:
        """Operators that have a part on it."""
        return sum(self.device in devices for devices in solution.devices_by_operator().values())

    def term(self, model: Any) -> Any:
        """The handle, summed up."""
        return sum(getattr(model, self.handle)(op.id, self.device) for op in model.problem.graph.operators)


class Inputs(OnDevice):
    """Inputs that it processes, of all operators together."""

    handle: ClassVar[str] = "batch"

    def figure(self, problem: Any, solution: Any) -> float:
        """Inputs of all batches."""
        return sum(len(batch.inputs) for batch in solution.batches if batch.device == self.device)


class Work(OnDevice):
    """Work in operators and parts of them."""

    handle: ClassVar[str] = "share"

    def figure(self, problem: Any, solution: Any) -> float:
        """The sum of shares."""
        at = list(solution.devices).index(self.device)
        return float(sum((each.cuts[at + 1] - each.cuts[at]) / each.cuts[-1] for each in solution.slices.values()))


class Between(Rule):
    """A distance of two operators: steps of an order, stages of a pipeline, or seconds from end to start."""

    early: str
    late: str

    def figure(self, problem: Any, solution: Any) -> float:
        """The distance."""
        if isinstance(problem, ow.MemoryOrdering):
            return list(solution.order).index(self.late) - list(solution.order).index(self.early)
        if isinstance(problem, ow.Pipeline):
            stage = {op: number for number, each in enumerate(solution.stages) for op in each.operators}
            return stage[self.late] - stage[self.early]
        when = problem.intervals(solution)
        return float(when[self.late][0] - when[self.early][1])

    def term(self, model: Any) -> Any:
        """The difference of two variables."""
        if isinstance(model.problem, ow.MemoryOrdering):
            return model.position(self.late) - model.position(self.early)
        if isinstance(model.problem, ow.Pipeline):
            return model.stage(self.late) - model.stage(self.early)
        return model.start(self.late) - model.end(self.early)


TOLD: dict[type[Rule], type[Rule]] = {
    rule: type(f"Told{rule.__name__}", (rule,), {}) for rule in (OnDevice, Inputs, Work, Between)
}
for told in TOLD.values():
    ow.express(told, "model")(lambda model, rule: rule.write(model))


@dataclass(frozen=True, slots=True)
class Instance:
    """A problem to be made, its name, and the rule that its plan has to obey, given in one of three ways."""

    kind: str
    name: str
    make: Make
    rule: Rule | None = None
    way: str = ""

    @property
    def title(self) -> str:
        """Kind and name."""
        return f"{self.kind}: {self.name}{self.way and ', ' + self.way}"

    def problem(self) -> AnyProblem:
        """The problem, with the rule if it is one of its constraints."""
        made = self.make()
        if self.rule is None or self.way == "extend":
            return made
        told = TOLD[type(self.rule)](**{name: getattr(self.rule, name) for name in type(self.rule).model_fields})
        fields = {name: getattr(made, name) for name in type(made).model_fields}
        return type(made)(**{**fields, "constraints": (self.rule if self.way == "violations" else told,)})

    def rows(self, model: Any, _problem: AnyProblem) -> None:
        """What ``extend`` does."""
        assert self.rule is not None
        self.rule.write(model)


def graph_of(name: str) -> ow.OpGraph:
    """A graph of the repository."""
    return ow.load(GRAPHS / f"{name}.json.gz")


def u_net(depth: int, seed: int) -> ow.OpGraph:
    """Two branches go down, and one goes up and reads what has the same size on both ways down."""
    rng, build = random.Random(seed), Builder(f"U-Net of depth {depth}")
    lasts = [build.input("x0", 1 << 18), build.input("x1", 1 << 18)]
    levels: list[list[str]] = []
    for level in range(depth):
        size = (1 << 18) >> level
        for branch in (0, 1):
            for step in range(rng.randint(1, 3)):
                lasts[branch] = build.run(f"down{level}.{branch}.{step}", [lasts[branch]], size)
        levels.append(list(lasts))
        lasts = [build.run(f"pool{level}.{branch}", [lasts[branch]], size // 4) for branch in (0, 1)]
    last = build.run("bottom", lasts, 1 << 18 >> depth)
    for level in reversed(range(depth)):
        size = (1 << 18) >> level
        wide = build.run(f"up{level}", [last], size)
        joined = build.run(f"join{level}", [wide, *levels[level]], 3 * size)
        last = build.run(f"merge{level}", [joined], size)
    return build.graph([last])


def experts(layers: int, count: int, seed: int) -> ow.OpGraph:
    """Layers of a router, experts of two products and of unlike sizes, and their sum with a connection around."""
    rng, build = random.Random(seed), Builder(f"{layers} layers of {count} experts")
    state = build.input("x", 4096)
    for layer in range(layers):
        router = build.run(f"l{layer}.router", [state], 1024)
        parts = [state]
        for expert in range(count):
            wide = build.run(f"l{layer}.e{expert}.up", [state, router], 4096 * rng.randint(1, 8))
            parts.append(build.run(f"l{layer}.e{expert}.down", [wide], 4096))
        state = build.run(f"l{layer}.sum", parts, 4096)
    return build.graph([state])


def equal_machines(tasks: int, machines: int, chance: float, seed: int) -> ow.Placement:
    """Tasks of 1 to 20 s on equal machines, as in the Standard Task Graph Set: no transfers, random precedence."""
    rng, build = random.Random(seed), Builder(f"{tasks} tasks")
    names: list[str] = []
    for task in range(tasks):
        inputs = [name for name in names[-20:] if rng.random() < chance]
        names.append(build.run(f"t{task}", inputs or [build.input(f"x{task}", 0)], 0))
    graph = build.graph([])
    devices = [ow.Device(name=f"m{index}") for index in range(machines)]
    cluster = ow.Cluster(devices=devices, shared=1e9)
    seconds = {name: float(rng.randint(1, 20)) for name in names}
    table = {name: {device.name: seconds[name] for device in devices} for name in names}
    return ow.Placement(graph=graph, cluster=cluster, costs=ow.Costs.from_table(table), transfers="delay")


def at_home(graph: ow.OpGraph, memory: float | None = None) -> ow.Placement:
    """Four unlike devices with slow links; memory for parts of the weights, 2.35 times ``memory`` in all."""
    weights = sum(parameter.bytes for parameter in graph.parameters)
    rig = (("desktop", 20e12, 120e6, 0.35), ("laptop", 6e12, 60e6, 0.5), ("old", 1e12, 80e6, 0.6),
           ("board", 3e11, 110e6, 0.9))  # fmt: skip
    devices = [
        ow.Device(
            name=name,
            flops_per_second=speed,
            memory_bandwidth=speed / 50,
            memory_bytes=None if memory is None else int(memory * share * weights),
        )
        for name, speed, _, share in rig
    ]
    cluster = ow.Cluster(devices=devices, rates=[rate for _, _, rate, _ in rig], latency=1e-3)
    costs = ow.Costs.roofline(graph, cluster)
    return ow.Placement(graph=graph, cluster=cluster, costs=costs, memory="parameters")


def on_preset(name: str, cluster: str) -> ow.Placement:
    """A graph of the repository on a cluster from the literature."""
    graph, machines = graph_of(name), ow.clusters.load(cluster)
    return ow.Placement(graph=graph, cluster=machines, costs=ow.Costs.roofline(graph, machines))


def spread(
    graph: ow.OpGraph, devices: int, seed: int, transfers: TransferModel, tight: float | None = None
) -> ow.Placement:
    """A graph on unlike devices with random links and times; ``tight``: memory of all, in multiples of the need."""
    held = None
    if tight is not None:
        held = int(tight * sum(tensor.bytes for tensor in graph.tensors) / devices)
    cluster = unlike(graph, devices, seed, held)
    costs = ow.Costs.from_table(times(graph, cluster, seed))
    return ow.Placement(graph=graph, cluster=cluster, costs=costs, transfers=transfers)


def free(operators: int, devices: int, seed: int) -> ow.Placement:
    """A random graph whose transfers do not wait for each other."""
    return scattered(operators, devices, seed).model_copy(update={"transfers": "delay"})


def piped(graph: ow.OpGraph, devices: int, seed: int, **fields: Any) -> ow.Pipeline:
    """A graph on unlike devices with random links and times."""
    cluster = unlike(graph, devices, seed)
    costs = ow.Costs.from_table(times(graph, cluster, seed))
    return ow.Pipeline(graph=graph, cluster=cluster, costs=costs, **fields)


def of_different(graph: ow.OpGraph, memory: float, objective: str) -> ow.Pipeline:
    """A chain of modules on 20 devices of unlike memory."""
    problem = heterogeneous(graph, 20, memory, 1, computing=True, matrix=True)
    return problem.model_copy(update={"objective": objective})


def handhelds(name: str, devices: int) -> ow.Placement:
    """A Keras network on a laptop, a phone and a board that share one channel."""
    graph, speeds = keras(name), (("laptop", 40e9), ("phone", 20e9), ("board", 9e9))[:devices]
    machines = [ow.Device(name=device, flops_per_second=speed, memory_bandwidth=1e10) for device, speed in speeds]
    cluster = ow.Cluster(devices=machines, shared=40e6)
    return ow.Placement(graph=graph, cluster=cluster, costs=ow.Costs.roofline(graph, cluster))


def foreign(collection: str, name: str) -> AnyProblem:
    """A public instance; FileNotFoundError where it is not at hand."""
    found = folder_of(collection) / name
    if not found.exists():
        raise FileNotFoundError(f"{found} is not there; OPWEAVE_INSTANCES names the folder of public instances")
    return ow.MemoryLayout.from_csv(found) if found.suffix == ".csv" else load_job_shop(found)


def listed(problem: ow.MemoryOrdering) -> ow.MemoryLayout:
    """The lifetimes of the order as given."""
    order = ow.Ordering(order=[op.id for op in problem.graph.operators])
    return ow.MemoryLayout.of(problem, order)


def of_batches(name: str, operators: int, seed: int) -> AnyProblem:
    """The instance of a name among those of other shapes."""
    return next(problem for title, problem in batched_mappings(operators, seed) if title.startswith(name)
                and title.endswith("6"))  # fmt: skip


def ordering(make: Callable[[], ow.OpGraph], objective: str) -> ow.MemoryOrdering:
    """An order of a graph."""
    return ow.MemoryOrdering.model_validate({"graph": make(), "objective": objective})


GRAPHS_TO_ORDER: dict[str, Callable[[], ow.OpGraph]] = {
    "PNASNet, peak": partial(graph_of, "nas/pnasnet5large"),
    "PNASNet, total": partial(graph_of, "nas/pnasnet5large"),
    "RandWire training, peak": partial(graph_of, "torch/randwire_ws32_c78.train"),
    "T5, total": partial(graph_of, "torch/t5_small.export"),
    "GPT-3 330M training, peak": partial(graph_of, "torch/gpt3_330m.train"),
    "random 300, peak": partial(layered_dag, 300, 12, 21),
    "random 150, total": partial(layered_dag, 150, 8, 22),
    "randomly wired 9 x 32, peak": partial(randomly_wired, 9, 32, 23),
    "U-Net, total": partial(u_net, 6, 24),
}
ORDERINGS: dict[str, Make] = {
    name: partial(ordering, make, name.rsplit(", ", 1)[1]) for name, make in GRAPHS_TO_ORDER.items()
}

PLACEMENTS: dict[str, Make] = {
    "Inception-v3, slow links": partial(on_preset, "torch/inception_v3.export", "moirai-inter"),
    "Swin-T, fast links": partial(on_preset, "torch/swin_tiny_patch4_window7_224.export", "moirai-intra"),
    "HRNet, home": partial(on_preset, "torch/hrnet_w18_small.export", "home"),
    "DARTS, slow links": lambda: at_home(network("DARTS")[0]),
    "T5, memory binds": lambda: at_home(graph_of("torch/t5_small.export"), 1.0),
    "transformer 6 x 4, memory binds": lambda: at_home(transformer(6, 4, 512), 0.6),
    "random 60 on 3, ports": partial(scattered, 60, 3, 31),
    "random 120 on 4, ports": partial(scattered, 120, 4, 32),
    "random 500 on 4, ports": partial(scattered, 500, 4, 33),
    "random 60 on 3, free": partial(free, 60, 3, 34),
    "random 200 on 6, free": partial(free, 200, 6, 35),
    "skips 80 on 4, ports, memory binds": lambda: spread(skips(80, 36), 4, 36, "one_port_tensor", 1.2),
    "experts on 5, free": lambda: spread(experts(5, 8, 37), 5, 37, "delay"),
    "U-Net on 3, port for each edge": lambda: spread(u_net(6, 38), 3, 38, "one_port_edge"),
    "50 tasks on 4 equal machines": partial(equal_machines, 50, 4, 0.12, 39),
    "100 tasks on 8 equal machines": partial(equal_machines, 100, 8, 0.06, 40),
    "GoogLeNet, measured": partial(measured, "GoogLeNet"),
    "yolov5x, measured": partial(measured, "yolov5x"),
    "flexible job shop 210": partial(foreign, "fjsp", "210.txt"),
}

OTHERS: dict[str, Mapping[str, Make]] = {
    "batched": {
        "Table I, sdep, batch of 4": lambda: stacked(Stack(channels=3, dependency="sdep", seed=3), 4),
        "Table I, wdep, batch of 8": lambda: stacked(Stack(channels=3, dependency="wdep", seed=4), 8),
        "skips 60, batch of 6": partial(of_batches, "skips", 60, 41),
        "series-parallel 150, batch of 6": partial(of_batches, "series", 150, 42),
    },
    "pipeline": {
        "InceptionResNetV2, bottleneck": lambda: of_different(keras("InceptionResNetV2"), 64 * MEGABYTE, "bottleneck"),
        "InceptionResNetV2, latency": lambda: of_different(keras("InceptionResNetV2"), 64 * MEGABYTE, "latency"),
        "chain of 80, latency": lambda: of_different(random_chain(80, 43), 1.84e7, "latency"),
        "GPT-2, sum": lambda: piped(graph_of("torch/gpt2_small.export"), 6, 44, load="sum"),
        "tree of 120, bottleneck": lambda: piped(in_tree(120, 45), 8, 45),
    },
    "slicing": {
        "VGG16": lambda: on_boards("VGG16", "x1"),
        "ResNet50": lambda: on_boards("ResNet50", "x1"),
        "Inception-v3, fast links": lambda: on_boards("Inception-v3", "x8"),
        "random 60 on 4, memory binds": lambda: list(slicings(60, 46))[2][1],
    },
    "layout": {
        "random 400": lambda: random_layout(400, 200, 51),
        "nested 1,000": lambda: family("nested", 1000, 52),
        "bursts 300": lambda: family("bursts", 300, 53),
        "three pools, 200": lambda: pooled(200, 54),
        "RandWire training as listed": lambda: listed(
            ow.MemoryOrdering(graph=graph_of("torch/randwire_ws32_c78.train"))
        ),
        "MiniMalloc I": partial(foreign, "minimalloc", "I.1048576.csv"),
    },
    "serving": {
        "Helix, 24 devices": lambda: helix("24 devices")[0],
        "Helix, 3 regions": lambda: helix("24 in 3 regions")[0],
        "random": lambda: random_case(55),
    },
}

WAYS = ("violations", "expressed", "extend")
RULED: tuple[tuple[str, Make, Rule, tuple[str, ...]], ...] = (
    ("placement, ResNet50 on 3, 20 % on the phone", partial(handhelds, "ResNet50", 3),
     OnDevice(device="phone", least=36), ("extend", "expressed")),
    ("placement, ResNet50 on 2, 30 % on the phone", partial(handhelds, "ResNet50", 2),
     OnDevice(device="phone", least=53), WAYS),
    ("placement, random 40, a wait", partial(scattered, 40, 3, 61),
     Between(early="op12", late="op33", least=0.03), WAYS),
    ("batched, stack, half of the inputs on the CPU", lambda: stacked(Stack(modules=5, seed=62), 4),
     Inputs(device="cpu", least=120), WAYS),
    ("pipeline, ResNet50, stages between", lambda: piped(keras("ResNet50"), 6, 63),
     Between(early="conv2_block1_out", late="conv5_block3_out", most=2), WAYS),
    ("slicing, random 40, work of a board", lambda: list(slicings(40, 64))[1][1],
     Work(device="board-12", most=12), WAYS),
    ("ordering, random 60, steps between", lambda: ow.MemoryOrdering(graph=layered_dag(60, 6, 65)),
     Between(early="op7", late="op40", least=1, most=12), WAYS),
)  # fmt: skip


def instances() -> Iterator[Instance]:
    """All of them."""
    for kind, made in {"ordering": ORDERINGS, "placement": PLACEMENTS, **OTHERS}.items():
        for name, make in made.items():
            yield Instance(kind, name, make)
    for name, make, rule, ways in RULED:
        for way in ways:
            yield Instance("rules", name, make, rule, way)


def tiny() -> Iterator[Instance]:
    """One small instance of each kind: to load the loops, and for a short run."""
    small: dict[str, Callable[[], ow.extend.Problem[Any, Any]]] = {
        "ordering": lambda: ow.MemoryOrdering(graph=layered_dag(24, 4, 1), objective="total"),
        "placement": partial(scattered, 24, 3, 1),
        "batched": lambda: stacked(Stack(modules=2, seed=1), 4),
        "pipeline": lambda: piped(series_parallel(24, 1), 4, 1),
        "slicing": lambda: list(slicings(10, 1))[1][1],
        "layout": lambda: pooled(40, 1),
        "serving": lambda: random_case(1),
    }
    for kind, make in small.items():
        yield Instance(kind, "tiny", make)
    for way in WAYS:
        yield Instance("rules", "tiny", small["placement"], OnDevice(device="d0", least=12), way)
