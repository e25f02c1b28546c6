"""Draw the ideas of the bounds and the architecture: ``python docs/scripts/drawings.py [NAME ...]``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import pairwise, permutations
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch, Rectangle

import opweave as ow

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs/figures"

# The palette of Okabe and Ito, as in all pictures of opweave.
BLUE, RED, GREEN, SKY, ORANGE, GREY, BLACK = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#56B4E9",
    "#E69F00",
    "#6E6E6E",
    "#000000",
)
PALE = {
    BLUE: "#d6e8f3",
    RED: "#fbe3d3",
    GREEN: "#d5efe6",
    SKY: "#e2f2fb",
    ORANGE: "#fbeecb",
    GREY: "#ececec",
}


def paper(width: float, height: float) -> tuple[Figure, Axes]:
    """An empty sheet, one unit to the inch."""
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, width)
    axes.set_ylim(0, height)
    axes.axis("off")
    return figure, axes


def box(
    axes: Axes,
    x: float,
    y: float,
    width: float,
    height: float,
    text: str,
    colour: str,
    size: float = 10,
) -> None:
    """A rounded box with a text in it."""
    style = "round,pad=0,rounding_size=0.06"
    patch = FancyBboxPatch(
        (x, y),
        width,
        height,
        boxstyle=style,
        facecolor=PALE[colour],
        edgecolor=colour,
        linewidth=1.2,
    )
    axes.add_patch(patch)
    axes.text(
        x + width / 2, y + height / 2, text, ha="center", va="center", fontsize=size
    )


def arrow(
    axes: Axes,
    begin: tuple[float, float],
    end: tuple[float, float],
    colour: str = GREY,
    bend: float = 0.0,
) -> None:
    """An arrow, straight or bent."""
    style = f"arc3,rad={bend}"
    axes.add_patch(
        FancyArrowPatch(
            begin,
            end,
            arrowstyle="-|>",
            mutation_scale=11,
            color=colour,
            linewidth=1.3,
            connectionstyle=style,
        )
    )


def node(
    axes: Axes, x: float, y: float, text: str, colour: str, radius: float = 0.26
) -> None:
    """An operator."""
    axes.add_patch(
        Circle(
            (x, y),
            radius,
            facecolor=PALE[colour],
            edgecolor=colour,
            linewidth=1.4,
            zorder=3,
        )
    )
    axes.text(x, y, text, ha="center", va="center", fontsize=10, zorder=4)


def bound_meets_plan() -> Figure:
    """A real solve: plans and bounds of NASNetMobile over time. The first solve only loads and compiles."""
    problem = ow.MemoryOrdering(
        graph=ow.load(ROOT / "benchmarks/graphs/keras/NASNetMobile.json.gz")
    )
    result = [ow.solve(problem, time_limit=20) for _ in range(2)][-1]
    found = [each for each in result.incumbents if each.objective is not None]
    figure = Figure(figsize=(8, 3.3))
    axes = figure.add_axes((0.1, 0.17, 0.87, 0.72))
    end = 1e3 * result.timings.total
    plans = [(1e3 * each.seconds, each.objective / 2**20) for each in found]
    bounds = [
        (1e3 * each.seconds, each.bound / 2**20)
        for each in result.incumbents
        if each.bound is not None
    ]
    for points, colour, label in (
        (plans, BLUE, "best plan so far"),
        (bounds, BLACK, "lower bound"),
    ):
        times, values = zip(*points, strict=True)
        axes.step(
            [*times, end],
            [*values, values[-1]],
            where="post",
            color=colour,
            linewidth=2,
            label=label,
        )
    axes.set_ylim(bottom=0)
    axes.set_xlabel("milliseconds")
    axes.set_ylabel("peak (MiB)")
    axes.set_title(
        "NASNetMobile, memory ordering: the two lines meet, so the plan is proved",
        loc="left",
        fontsize=11,
    )
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    return figure


def cut_example() -> ow.MemoryOrdering:
    """The graph of the drawing of a cut; sizes in bytes."""
    sizes = {"x": 2, "a": 4, "b": 3, "c": 6, "d": 1, "v": 4, "e": 1, "y": 1}
    reads = {"a": "x", "b": "x", "c": "b", "d": "c", "v": "a", "e": "v", "y": "de"}
    return ow.MemoryOrdering(
        graph=ow.OpGraph(
            tensors=[ow.Tensor(id=name, bytes=size) for name, size in sizes.items()],
            operators=[
                ow.Operator(id=name, inputs=list(read), outputs=[name])
                for name, read in reads.items()
            ],
            outputs=["y"],
        )
    )


def bound_cut() -> Figure:
    """The cheapest state in which an operator can run, by trying all orders."""
    problem = cut_example()
    figure, axes = paper(8.4, 3.7)
    places = {
        "x": (0.6, 1.75),
        "a": (2.0, 2.75),
        "b": (2.0, 0.85),
        "c": (3.5, 0.85),
        "d": (5.0, 0.85),
        "v": (4.6, 2.75),
        "e": (6.2, 2.75),
        "y": (7.6, 1.75),
    }
    sizes = {tensor.id: tensor.bytes for tensor in problem.graph.tensors}
    colours = (
        dict.fromkeys("xa", BLUE)
        | dict.fromkeys("bcd", GREY)
        | {"v": RED}
        | dict.fromkeys("ey", GREEN)
    )
    for op in problem.graph.operators:
        for read in op.inputs:
            (x0, y0), (x1, y1) = places[read], places[op.id]
            length = ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5
            dx, dy = 0.28 * (x1 - x0) / length, 0.28 * (y1 - y0) / length
            arrow(axes, (x0 + dx, y0 + dy), (x1 - dx, y1 - dy))
            axes.text(
                (x0 + x1) / 2,
                (y0 + y1) / 2 + 0.12,
                f"{sizes[read]} B",
                ha="center",
                fontsize=9,
                color=GREY,
            )
    for name, (x, y) in places.items():
        node(axes, x, y, name, colours[name])
    axes.plot(
        [2.75, 3.3, 4.2, 5.75, 5.75],
        [3.45, 2.2, 1.6, 1.5, 0.3],
        color=RED,
        linestyle="--",
        linewidth=1.6,
    )
    axes.text(
        5.85,
        0.35,
        "cheapest border:\nd (1 B) and a (4 B) live",
        fontsize=9.5,
        color=RED,
        va="bottom",
    )
    axes.text(0.1, 3.4, "blue: has run before v", color=BLUE, fontsize=9.5)
    axes.text(0.1, 0.18, "grey: free, the cut decides", color=GREY, fontsize=9.5)
    axes.text(5.5, 3.4, "green: cannot have run yet", color=GREEN, fontsize=9.5)
    least = least_bytes_at(problem, "v")
    axes.text(
        3.3, 3.4, f"v makes {sizes['v']} B: at least {least} B", color=RED, fontsize=9.5
    )
    return figure


def least_bytes_at(problem: ow.MemoryOrdering, op: str) -> int:
    """The fewest bytes that live in the step of an operator, over all orders: brute force."""
    best = None
    for names in permutations(each.id for each in problem.graph.operators):
        judged = problem.evaluate(ow.Ordering(order=names))
        if judged.feasible:
            held = judged.details.stable[names.index(op)]
            best = held if best is None else min(best, held)
    assert best is not None
    return best


def bound_energetic() -> Figure:
    """Critical path, area, and both together."""
    figure, axes = paper(8.4, 3.5)
    left, unit = 1.7, 0.62
    rows = [
        (2.6, "critical path", [(6.5, "longest path", BLUE)], 6.5),
        (1.6, "area", [(5.8, "all work / all devices", ORANGE)], 5.8),
        (
            0.6,
            "energetic",
            [
                (1.9, "head a", BLUE),
                (4.6, "work that has to run between: E", ORANGE),
                (2.1, "tail q", BLUE),
            ],
            8.6,
        ),
    ]
    for y, name, parts, total in rows:
        axes.text(left - 0.12, y + 0.25, name, ha="right", va="center", fontsize=10.5)
        x = left
        for length, text, colour in parts:
            axes.add_patch(
                Rectangle(
                    (x, y),
                    length * unit,
                    0.5,
                    facecolor=PALE[colour],
                    edgecolor=colour,
                    linewidth=1.2,
                )
            )
            axes.text(
                x + length * unit / 2,
                y + 0.25,
                text,
                ha="center",
                va="center",
                fontsize=9.5,
            )
            x += length * unit
        axes.text(x + 0.1, y + 0.25, f"{total} s", va="center", fontsize=10)
    best = left + 9.6 * unit
    axes.plot([best, best], [0.35, 3.3], color=RED, linestyle="--", linewidth=1.5)
    axes.text(best + 0.08, 3.18, "best plan", color=RED, fontsize=10)
    arrow(axes, (left, 0.25), (left + 10.4 * unit, 0.25))
    axes.text(left + 10.2 * unit, 0.05, "seconds", ha="right", fontsize=9.5, color=GREY)
    return figure


def bound_windows() -> Figure:
    """Milestones, the windows between them, and devices at their ends."""
    figure, axes = paper(8.4, 3.2)
    xs = [0.6, 3.0, 5.4, 7.8]
    for number, (x, following) in enumerate(pairwise(xs)):
        box(axes, x + 0.45, 2.0, following - x - 0.9, 0.8, "window", ORANGE, 10)
        arrow(axes, (x + 0.27, 2.4), (x + 0.45, 2.4))
        arrow(axes, (following - 0.45, 2.4), (following - 0.27, 2.4))
        for row, begin in enumerate((1.15, 0.45)):
            for other, end in enumerate((1.15, 0.45)):
                chosen = (number, row, other) in {(0, 0, 1), (1, 1, 1), (2, 1, 0)}
                axes.plot(
                    [x + 0.2, following - 0.2],
                    [begin, end],
                    color=RED if chosen else "#c4c4c4",
                    linewidth=2.2 if chosen else 0.9,
                    zorder=1,
                )
    for number, x in enumerate(xs, 1):
        node(axes, x, 2.4, f"$u_{number}$", BLUE)
        for y, name in ((1.15, "a"), (0.45, "b")):
            axes.add_patch(
                Circle(
                    (x, y),
                    0.19,
                    facecolor="white",
                    edgecolor=GREY,
                    linewidth=1.1,
                    zorder=3,
                )
            )
            axes.text(x, y, name, ha="center", va="center", fontsize=9.5, zorder=4)
    axes.text(
        4.2,
        0.03,
        "every line: a lower bound of the window with both devices fixed; red: the cheapest chain",
        ha="center",
        fontsize=9.5,
        color=GREY,
    )
    return figure


def bound_walk() -> Figure:
    """A walk that repeats a device, beside a pipeline."""
    figure, axes = paper(8.4, 2.9)
    for x0, title, order, colour in (
        (0.3, "a walk: pays for A twice", "ABCA", ORANGE),
        (4.5, "a pipeline: each device once", "ABCD", BLUE),
    ):
        axes.text(x0, 2.62, title, fontsize=10.5)
        for stage, name in enumerate(order):
            box(axes, x0 + stage * 0.95, 1.75, 0.8, 0.5, f"stage {stage + 1}", GREY, 9)
            node(
                axes,
                x0 + stage * 0.95 + 0.4,
                0.95,
                name,
                colour if order.count(name) == 1 else RED,
            )
            axes.text(
                x0 + stage * 0.95 + 0.4,
                0.45,
                rf"$\lambda_{{{name}}}$",
                ha="center",
                fontsize=10,
                color=GREY,
            )
            if stage:
                arrow(
                    axes,
                    (x0 + stage * 0.95 - 0.27, 0.95),
                    (x0 + stage * 0.95 + 0.12, 0.95),
                )
    axes.text(
        0.3,
        0.08,
        "cheapest walk > sum of all prices: no pipeline keeps the threshold",
        fontsize=9.5,
        color=RED,
    )
    return figure


def bound_live_peak() -> Figure:
    """A layout of five storages, from a solve."""
    storages = [
        ("a", 0, 3, 4),
        ("b", 1, 5, 3),
        ("c", 3, 7, 5),
        ("d", 5, 9, 3),
        ("e", 7, 10, 4),
        ("f", 2, 4, 2),
    ]
    problem = ow.MemoryLayout(
        lifetimes=[
            ow.Lifetime(id=n, begin=b, end=e, bytes=s) for n, b, e, s in storages
        ]
    )
    result = ow.solve(problem)
    figure = Figure(figsize=(8, 3.2))
    axes = figure.add_axes((0.08, 0.17, 0.9, 0.74))
    colours = (BLUE, ORANGE, GREEN, SKY, RED, GREY)
    for (name, begin, end, size), colour in zip(storages, colours, strict=True):
        offset = result.solution.offset[name]
        axes.add_patch(
            Rectangle(
                (begin, offset),
                end - begin,
                size,
                facecolor=PALE[colour],
                edgecolor=colour,
                linewidth=1.3,
            )
        )
        axes.text(
            (begin + end) / 2,
            offset + size / 2,
            f"{name}: {size} B",
            ha="center",
            va="center",
            fontsize=10,
        )
    axes.axhline(problem.live_peak, color=BLACK, linestyle="--", linewidth=1.4)
    axes.text(
        10.2,
        problem.live_peak + 0.25,
        f"live peak {problem.live_peak} B",
        ha="right",
        fontsize=10,
    )
    axes.set_xlim(0, 10.3)
    axes.set_ylim(0, problem.live_peak + 1.4)
    axes.set_xlabel("step")
    axes.set_ylabel("address")
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def architecture() -> Figure:
    """The layers, and the way of a model through them."""
    figure, axes = paper(8.6, 4.9)
    layers = [
        (3.75, "adapters", "files, frameworks, runtimes, reports, command line", SKY),
        (2.6, "solvers", "solve, run, engines, algorithms, bounds", ORANGE),
        (1.45, "formulations", "models for engines, model variables", GREEN),
        (0.3, "problems", "data, timelines, rules, metrics: the referee", BLUE),
    ]
    for y, name, about, colour in layers:
        axes.add_patch(
            Rectangle(
                (0.1, y),
                8.4,
                1.0,
                facecolor=PALE[colour],
                edgecolor=colour,
                linewidth=1.2,
            )
        )
        axes.text(0.25, y + 0.78, name, fontsize=11.5, fontweight="bold", va="center")
        axes.text(0.25, y + 0.22, about, fontsize=8.5, va="center", color="#333333")
    steps = [
        (4.1, 4.05, "model file"),
        (4.1, 0.6, "problem"),
        (5.35, 1.75, "program"),
        (5.35, 2.9, "engine or\nalgorithm"),
        (6.6, 0.6, "timeline,\nverdict"),
        (6.6, 2.9, "result"),
        (7.5, 4.05, "report,\nplan"),
    ]
    for x, y, text in steps:
        style = "round,pad=0,rounding_size=0.05"
        axes.add_patch(
            FancyBboxPatch(
                (x - 0.05, y - 0.12),
                0.95,
                0.6,
                boxstyle=style,
                facecolor="white",
                edgecolor=BLACK,
                linewidth=0.9,
                zorder=3,
            )
        )
        axes.text(
            x + 0.425, y + 0.18, text, ha="center", va="center", fontsize=8.5, zorder=4
        )
    for begin, end, bend in (
        ((4.5, 3.93), (4.5, 1.1), 0.0),
        ((5.0, 0.85), (5.6, 1.62), -0.25),
        ((5.8, 2.25), (5.8, 2.76), 0.0),
        ((6.1, 2.76), (6.75, 1.1), -0.15),
        ((7.05, 1.1), (7.05, 2.76), 0.0),
        ((7.3, 3.4), (7.8, 3.92), -0.2),
    ):
        arrow(axes, begin, end, BLACK, bend)
    return figure


DRAWN: tuple[Callable[[], Figure], ...] = (
    bound_meets_plan,
    bound_cut,
    bound_energetic,
    bound_windows,
    bound_walk,
    bound_live_peak,
    architecture,
)

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    mpl.rcParams |= {
        "svg.fonttype": "none",
        "svg.hashsalt": "opweave",
        "font.family": "DejaVu Sans",
    }
    for draw in DRAWN:
        if draw.__name__ in sys.argv[1:] or len(sys.argv) == 1:
            draw().savefig(FOLDER / f"{draw.__name__}.svg", metadata={"Date": None})
