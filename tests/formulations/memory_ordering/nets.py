"""Hypothesis strategies for graphs like real networks: chains, branches that join, skip connections."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from opweave.problems.graph import Operator, OpGraph, Tensor
from opweave.problems.memory_ordering.spec import MemoryOrdering


class Net:
    """A graph under construction, one output for each operator.

    Examples
    --------
    >>> net = Net(x=2)
    >>> net.op("x", 4)
    'a'
    >>> net.graph("a").inputs
    ('x',)
    """

    def __init__(self, **inputs: int) -> None:
        self.tensors = [Tensor(id=name, bytes=size) for name, size in inputs.items()]
        self.operators: list[Operator] = []

    def op(self, inputs: str, size: int, name: str = "", workspace: int = 0, *, inplace_ok: bool = False) -> str:
        """Add an operator and its output, both of the same name; ``inputs`` are split at blanks."""
        name = name or chr(ord("a") + len(self.operators))
        self.tensors.append(Tensor(id=name, bytes=size))
        self._add(name, inputs, workspace, inplace_ok=inplace_ok)
        return name

    def view(self, source: str, name: str) -> str:
        """Add an operator whose output shares the storage of its input."""
        self.tensors.append(Tensor(id=name, bytes=0, alias_of=source))
        self._add(name, source, 0, inplace_ok=False)
        return name

    def _add(self, name: str, inputs: str, workspace: int, *, inplace_ok: bool) -> None:
        self.operators.append(
            Operator(id=name, inputs=inputs.split(), outputs=[name], workspace_bytes=workspace, inplace_ok=inplace_ok)
        )

    def graph(self, outputs: str = "") -> OpGraph:
        return OpGraph(operators=self.operators, tensors=self.tensors, outputs=outputs.split())


@st.composite
def nets(draw: DrawFn, max_operators: int = 9) -> OpGraph:
    """Branches that part and join, some nested, some beside each other, with views, workspaces and skips."""
    top = draw(st.sampled_from([4, 9]))
    sizes = st.integers(0, top)
    net = Net(**{f"x{index}": draw(sizes) for index in range(draw(st.integers(1, 2)))})
    views = draw(st.booleans())

    def step(inputs: list[str]) -> str:
        name = f"o{len(net.operators)}"
        if views and len(inputs) == 1 and draw(st.integers(0, 4)) == 0:
            return net.view(inputs[0], name)
        workspace = draw(st.sampled_from([0, 0, 0, top]))
        return net.op(" ".join(inputs), draw(sizes), name, workspace, inplace_ok=draw(st.booleans()))

    def grow(source: str, depth: int) -> str:
        kind = draw(st.sampled_from(["step", "chain", "branches"])) if depth else "step"
        if kind == "step" or len(net.operators) >= max_operators - 2:
            return step([source])
        if kind == "chain":
            for _ in range(draw(st.integers(2, 3))):
                source = grow(source, depth - 1)
            return source
        ends = [grow(source, depth - 1) for _ in range(2)]
        return step(draw(st.sampled_from([ends, [*ends, source]])))

    ends = [grow(tensor.id, 2) for tensor in list(net.tensors)]
    if len(ends) > 1 and draw(st.booleans()):
        ends = [step(ends)]
    if draw(st.integers(0, 3)) == 0:
        ends.append(step([draw(st.sampled_from([tensor.id for tensor in net.tensors]))]))
    return net.graph(" ".join(draw(st.lists(st.sampled_from(ends), unique=True))))


@st.composite
def net_problems(draw: DrawFn, max_operators: int = 9) -> MemoryOrdering:
    """Peak problems on :func:`nets` with every reading of memory."""
    return MemoryOrdering(
        graph=draw(nets(max_operators)),
        in_place=draw(st.sampled_from(["none", "first", "any"])),
        inputs=draw(st.sampled_from(["freed", "kept", "excluded"])),
        outputs=draw(st.sampled_from(["kept", "excluded"])),
    )
