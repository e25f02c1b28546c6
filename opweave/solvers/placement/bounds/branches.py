"""Equal parallel branches of a window, one of which can stand for all in a linear program."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opweave.problems.arrays import BoolArray, FloatArray, IntArray
from opweave.solvers.placement.bounds.windows import Window


@dataclass(frozen=True, slots=True, eq=False)
class Branches:
    """The operators that stand for others.

    Attributes
    ----------
    kept
        Operators that stay: the ends, and one branch of every group of equal branches. Shape (operators,).
    times
        Number of operators that each one stands for. Shape (operators,).
    leader
        The operator that stands for each one. Shape (operators,).
    shared
        Tensors that the same columns describe for all branches: produced by an end, or read by several branches.
        Shape (tensors,).
    """

    kept: BoolArray
    times: FloatArray
    leader: IntArray
    shared: BoolArray


def branches_of(window: Window) -> Branches:
    """Group the branches (components of the window without its ends) that are equal apart from names.

    A tensor of the entry that only one branch reads moves with that branch under a relabeling. A tensor that several
    branches read stays in place, so branches are equal only when they read the same such tensors.
    """
    from scipy.sparse import csr_matrix  # it takes longer to import than most problems to solve
    from scipy.sparse.csgraph import connected_components

    arrays, count = window.arrays, len(window.operators)
    first, last = int(window.entry), count - int(window.exit)
    inner = np.zeros(count, dtype=bool)
    inner[first:last] = True
    target = np.repeat(np.arange(count), np.diff(arrays.before_start))
    inside = inner[arrays.before] & inner[target]
    joined = csr_matrix((np.ones(int(inside.sum())), (arrays.before[inside], target[inside])), shape=(count, count))
    labels = connected_components(joined, directed=False)[1]
    parts: dict[int, list[int]] = {}
    for v in range(first, last):
        parts.setdefault(int(labels[v]), []).append(v)
    component = np.full(count, -1, dtype=np.int64)
    members = list(parts.values())
    for number, part in enumerate(members):
        component[part] = number
    shared = _shared_tensors(window, component)
    kept, times, leader = np.ones(count, dtype=bool), np.ones(count), np.arange(count, dtype=np.int64)
    seen: dict[bytes, list[int]] = {}
    for part in members:
        same = seen.setdefault(_signature(window, np.asarray(part, dtype=np.int64), shared), part)
        if same is not part:
            kept[part] = False
            times[same] += 1
            leader[part] = same
    return Branches(kept, times, leader, shared)


def _shared_tensors(window: Window, component: IntArray) -> BoolArray:
    """Tensors with readers in several components (the exit counts as one)."""
    arrays = window.arrays
    shared = np.zeros(arrays.tensors, dtype=bool)
    for t in range(arrays.tensors):
        flows = arrays.tensor == t
        ends = np.unique(component[arrays.target[flows]])
        made_by_end = (component[arrays.source[flows]] < 0).all()
        shared[t] = made_by_end and len(ends) > 1
    return shared


def _signature(window: Window, part: IntArray, shared: BoolArray) -> bytes:
    """Run times, arcs and flows of a branch, in positions relative to it; ends and shared tensors by name."""
    arrays, count = window.arrays, len(window.operators)
    local = np.full(count, -1, dtype=np.int64)
    local[part] = np.arange(len(part))
    if window.entry:
        local[0] = -2
    if window.exit:
        local[-1] = -3
    rows: list[tuple[int, ...]] = []
    here = set(part.tolist())
    numbers: dict[int, int] = {}
    for v in (*part.tolist(), *([count - 1] if window.exit else [])):
        before = arrays.before[arrays.before_start[v] : arrays.before_start[v + 1]].tolist()
        rows.extend((0, int(local[u]), int(local[v])) for u in before if v in here or u in here)
        for f in arrays.incoming[arrays.in_start[v] : arrays.in_start[v + 1]].tolist():
            u, t = int(arrays.source[f]), int(arrays.tensor[f])
            if v in here or u in here:
                name = -1 - t if shared[t] else numbers.setdefault(t, len(numbers))
                rows.append((1, int(local[u]), int(local[v]), name, int(arrays.size[f])))
    return arrays.seconds[part].tobytes() + repr(rows).encode()
