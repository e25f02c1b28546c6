"""Hypothesis strategies for slicing: small networks of convolutions, pools, sums and joins, and plans for them."""

from __future__ import annotations

from dataclasses import dataclass, field

from opweave.problems.cluster import Cluster, Device
from opweave.problems.constraints import Constraint, Forbid, MemoryCap, Pin
from opweave.problems.costs import Costs
from opweave.problems.graph import Operator, OpGraph, Parameter, Tensor
from opweave.problems.slicing.geometry import rulings
from opweave.problems.slicing.spec import Geometry, Slice, Slices, Slicing
from tests.strategies import choices as st
from tests.strategies.choices import DrawFn, lists_of, of, or_none
from tests.strategies.specs import topological_orders

CELL = 3
"""Bytes of a cell of every tensor."""


@dataclass
class _Net:
    """A network under construction: tensors by (channels, rows)."""

    draw: DrawFn
    shapes: dict[str, tuple[int, int]] = field(default_factory=dict)
    operators: list[Operator] = field(default_factory=list)
    parameters: list[Parameter] = field(default_factory=list)
    geometry: dict[str, Geometry] = field(default_factory=dict)

    def add(self, most_rows: int, most_channels: int) -> None:
        draw, name = self.draw, f"o{len(self.operators)}"
        kind = draw(of("conv", "conv", "conv", "pool", "Add", "join", "split", "dense", "odd"))
        x = draw(of(*list(self.shapes)[-2:]))
        channels, rows = self.shapes[x]
        inputs, outputs, geometry, shape = [x], [name], None, (channels, rows)
        alike = [other for other, shape in self.shapes.items() if shape == (channels, rows) and other != x]
        joinable = [other for other, shape in self.shapes.items() if shape[1] == rows and other != x]
        if kind in ("conv", "pool"):
            kernel, stride = draw(st.integers(1, 3)), draw(of(1, 1, 2))
            dilation = draw(of(1, 1, 2))
            padding = draw(st.integers(0, 2))
            made = (rows + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
            if not 1 <= made <= most_rows or (made - 1) * stride - padding >= rows:
                kernel, stride, dilation, padding, made = 1, 1, 1, 0, rows
            window = {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation}
            if kind == "conv":
                out = draw(st.integers(1, most_channels))
                groups = draw(of(*[g for g in (1, 1, 2) if channels % g == 0 and out % g == 0]))
                geometry, shape = Geometry(**window, groups=groups), (out, made)
            else:
                geometry, shape = Geometry(**window, channels="own"), (channels, made)
        elif kind == "Add" and alike:
            inputs = [x, draw(of(*alike))]
        elif kind == "join" and joinable:
            inputs = [x, draw(of(*joinable))]
            total = sum(self.shapes[other][0] for other in inputs)
            geometry, shape = Geometry(channels="joined"), (total, rows)
        elif kind == "dense":
            geometry, shape = Geometry(rows="all"), (draw(st.integers(1, most_channels)), 1)
        elif kind == "split" and channels > 1:
            geometry, shape = Geometry(), (1, rows)
            outputs += [f"{name}.rest"]
            self.shapes[outputs[1]] = (channels - 1, rows)
        else:
            kind = "odd"
        if shape[0] > most_channels:
            kind, geometry, shape = "odd", None, (channels, rows)
        weights = draw(of(0, 5, 11))
        if weights:
            self.parameters.append(Parameter(id=f"{name}.w", bytes=weights))
        self.operators.append(
            Operator(
                id=name,
                kind=kind,
                inputs=inputs,
                outputs=outputs,
                parameters=[f"{name}.w"] if weights else [],
                workspace_bytes=draw(of(0, 0, 2)),
            )
        )
        if geometry is not None:
            self.geometry[name] = geometry
        self.shapes[name] = shape


@st.composite
def slicings(
    draw: DrawFn,
    max_operators: int = 3,
    max_devices: int = 3,
    *,
    most_rows: int = 4,
    most_channels: int = 2,
    limits: bool = True,
    constraints: bool = True,
    ordered: bool = False,
) -> Slicing:
    """Slicing problems with every reading; feasible or not.

    Parameters
    ----------
    max_operators, max_devices, most_rows, most_channels
        At most this many; the defaults suit brute force.
    limits
        Whether some devices have little memory.
    constraints
        Whether some operators are pinned or forbidden, some times unknown.
    ordered
        Whether the order is always given.
    """
    net = _Net(draw)
    for name in ("x", "y")[: draw(of(1, 1, 1, 2))]:
        net.shapes[name] = draw(st.integers(1, most_channels)), draw(st.integers(1, most_rows))
    for _ in range(draw(st.integers(1, max_operators))):
        net.add(most_rows, most_channels)
    read = {name for op in net.operators for name in op.inputs}
    ends = [name for op in net.operators for name in op.outputs if name not in read]
    graph = OpGraph(
        tensors=[Tensor(id=t, bytes=CELL * c * h, shape=[1, c, h, 1]) for t, (c, h) in net.shapes.items()],
        operators=net.operators,
        parameters=net.parameters,
        outputs=draw(of(tuple(ends), tuple(ends[:1]), ())),
    )
    count = draw(st.integers(1, max_devices))
    names = [f"d{k}" for k in range(count)]
    little = limits and draw(st.booleans())
    memory = or_none(st.integers(10, 90))
    devices = [
        Device(name=name, memory_bytes=draw(memory) if little else None, launch_seconds=draw(of(0.0, 0.25)))
        for name in names
    ]
    rates = draw(lists_of(of(1.0, 3.0, 40.0), count, count))
    second = of(0.0, 0.5, 2.0, 7.0)
    table = {}
    for op in net.operators:
        row = {name: draw(second) for name in names}
        if constraints and count > 1 and draw(st.integers(0, 9)) == 0:
            del row[draw(of(*names))]
        table[op.id] = row
    rules: list[Constraint] = []
    if constraints and draw(st.integers(0, 3)) == 0:
        op, device = draw(of(*table)), draw(of(*names))
        rules.append(
            draw(
                st.sampled_from(
                    [Pin(op=op, device=device), Forbid(op=op, device=device), MemoryCap(device=device, bytes=60)]
                )
            )
        )
    return Slicing(
        graph=graph,
        cluster=Cluster(devices=devices, rates=rates, latency=draw(of(0.0, 0.0, 0.1))),
        costs=Costs.from_table(table),
        geometry=net.geometry,
        order=draw(topological_orders(graph)) if ordered or draw(st.booleans()) else None,
        dimension=draw(of("free", "free", "rule")),
        transfers=draw(of("refined", "refined", "paper")),
        weights=draw(of("resident", "streamed")),
        constraints=rules,
    )


@st.composite
def planned_slicings(draw: DrawFn, **arguments: object) -> tuple[Slicing, Slices]:
    """A problem and any plan that can be replayed, legal or not."""
    problem = draw(slicings(**arguments))
    order = problem.order or draw(topological_orders(problem.graph))
    rule = rulings(problem, order)
    names = tuple(device.name for device in problem.cluster.devices)
    slices = {}
    for name in order:
        lengths = problem.cuttings[name].lengths or {"whole": 1}
        dimension = rule[name].dimension if problem.dimension == "rule" else draw(of(*lengths))
        able = [k for k, device in enumerate(names) if device in problem.known_seconds[name]]
        length = lengths[dimension]
        inner = sorted(draw(st.lists(st.integers(0, length), min_size=len(able) - 1, max_size=len(able) - 1)))
        parts = dict(zip(able, zip((0, *inner), (*inner, length), strict=True), strict=True))
        cuts = [0]
        for k in range(len(names)):
            cuts.append(parts[k][1] if k in parts else cuts[-1])
        slices[name] = Slice(dimension=dimension, cuts=cuts)
    return problem, Slices(devices=names, slices=slices, order=order)
