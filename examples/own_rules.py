"""One custom constraint in five problems: with ``extend``, as a class, and as a class with an expression."""

import opweave as ow

graph = ow.OpGraph(
    tensors=[ow.Tensor(id=name, bytes=size) for name, size in {"x": 2_000, "a": 8_000, "b": 4_000, "c": 1_000}.items()],
    operators=[
        ow.Operator(id="a", inputs=["x"], outputs=["a"]),
        ow.Operator(id="b", inputs=["x"], outputs=["b"]),
        ow.Operator(id="c", inputs=["a", "b"], outputs=["c"]),
    ],
    outputs=["c"],
)
cluster = ow.Cluster(devices=[ow.Device(name="cpu"), ow.Device(name="gpu")], shared=1e6)
seconds = {"a": {"cpu": 0.2, "gpu": 0.1}, "b": {"cpu": 0.2, "gpu": 0.1}, "c": {"cpu": 0.1, "gpu": 0.1}}
costs = ow.Costs.from_table(seconds)
batches = {op: {device: {1: s, 2: 2 * s} for device, s in row.items()} for op, row in seconds.items()}


def problems(places=(), orders=()):
    """All five, with rules about devices, or about the order."""
    on_cluster = {"graph": graph, "cluster": cluster, "constraints": places}
    return [
        ow.Placement(**on_cluster, costs=costs),
        ow.BatchedMapping(**on_cluster, costs=ow.Costs.from_table(batches), batch=2),
        ow.Pipeline(**on_cluster, costs=costs),
        ow.Slicing(**on_cluster, costs=costs, order=("a", "b", "c")),
        ow.MemoryOrdering(graph=graph, objective="total", constraints=orders),
    ]


def extend(model, problem):
    """Rows for any engine, and for "auto": at most one operator on the GPU; 'b' is not the first to run."""
    if isinstance(problem, ow.MemoryOrdering):
        model.add(model.position("b") >= 1)
    else:
        model.add(sum(model.on(op.id, "gpu") for op in problem.graph.operators) <= 1)


class AtMost(ow.Constraint):
    """No more than ``count`` operators use ``device``: the referee's word is enough for engines and "auto"."""

    device: str
    count: int

    def violations(self, problem, solution):
        used = sum(self.device in devices for devices in solution.devices_by_operator().values())
        if used > self.count:
            yield self.broken(f"{used} operators use {self.device!r}, where at most {self.count} may")


class NotFirst(ow.Constraint):
    """``op`` is not the first to run."""

    op: str

    def violations(self, problem, solution):
        if solution.order[0] == self.op:
            yield self.broken(f"{self.op!r} runs first")


def show(title, posed, **arguments):
    """Solve the problems."""
    print(title)
    for problem in posed:
        result = ow.solve(problem, **arguments)
        print(f"  {problem.kind}: {result.objective} {problem.unit}, {result.status.value}")


rules = [AtMost(device="gpu", count=1)], [NotFirst(op="b")]
show("extend", problems(), extend=extend)
show("violations alone", problems(*rules))


@ow.express(AtMost, "model")  # from now on the rule is part of every model, which is faster
def at_most(model, rule):
    model.add(sum(model.on(op.id, rule.device) for op in model.problem.graph.operators) <= rule.count)


@ow.express(NotFirst, "model")
def not_first(model, rule):
    model.add(model.position(rule.op) >= 1)


show("with an expression", problems(*rules))
