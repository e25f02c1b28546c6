"""Slicing as the command line and the reports show it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from opweave.adapters.report.figures import MUTED, new_panels, safe_text
from opweave.adapters.report.view import Row, View
from opweave.adapters.report.workbench.panels import Panel, Parts
from opweave.formulations.slicing.shortage import shortage
from opweave.problems.slicing.spec import SlicedStep, Slices, Slicing, SlicingDetails
from opweave.problems.timeline import ActivityKind
from opweave.problems.units import precise_seconds, readable_share

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


DEVICE_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
"""The palette of Okabe and Ito; further devices get paler shades of it."""

COMPUTING, RECEIVING = "#4D4D4D", "#B3B3B3"
"""Greys, because colours stand for devices."""

ROW_INCHES, MOST_HEIGHT = 0.17, 16.0
NAMED_ROWS = 90


class SlicingView(View[Slicing, Slices, SlicingDetails]):
    """The latency, the gain against one device, and which device computes which part of every operator."""

    word: ClassVar[str] = "slicing"
    problem_type = Slicing
    baseline: ClassVar[str | None] = "one_device"
    subject: ClassVar[str] = "One input"
    better: ClassVar[str] = "faster"
    plan_file: ClassVar[str] = "slices.json"
    figure_file: ClassVar[str] = "slices.png"

    def rows(self) -> list[Row]:
        """Add how many operators cannot be cut."""
        whole = sum(not cutting.lengths for cutting in self.problem.cuttings.values())
        return [*super().rows(), ("operators that cannot be cut", f"{whole:,} of {len(self.problem.cuttings):,}")]

    def sentences(self) -> Iterator[str]:
        """Add how operators are cut, where the time goes, and which operators stay whole."""
        yield from super().sentences()
        details, steps = self.details, self.details.steps
        if details.latency > 0:
            shared = self.problem.channel == "shared"
            wait = sum(s.airtime if shared else s.transfer_seconds[s.slowest] for s in steps) + details.gather_seconds
            rows, channels = (
                sum(s.dimension == each and len(s.shares) > 1 for s in steps) for each in ("rows", "channels")
            )
            if rows + channels:
                yield f"{rows:,} operators are cut along the rows and {channels:,} along the channels."
                yield f"{readable_share(wait / details.latency)} of the time is waiting for data."
            else:
                yield "No operator is cut."
        kept = [(name, cutting.why_whole) for name, cutting in self.problem.cuttings.items() if not cutting.lengths]
        if kept:
            name, why = kept[0]
            yield f"{len(kept):,} of {len(self.problem.cuttings):,} operators cannot be cut; of {name!r}, {why}."

    def shortage(self) -> str | None:
        """Find a device or operator for which nothing fits."""
        return shortage(self.problem)

    def notes(self, activity: int) -> Mapping[str, object]:
        """Say which part of its operator a device computes."""
        acts = self.timeline.activities
        step = self._steps.get(int(acts.what[activity]))
        row = int(acts.resource[activity])
        device = self.timeline.resources[row].name
        if step is None or acts.kind[activity] != ActivityKind.RUN:
            return {}
        cuts = self.solution.slices[step.operator].cuts
        return {
            "share": step.shares[device],
            "dimension": step.dimension,
            "part": f"{cuts[row]} to {cuts[row + 1]}",
            "slowest": device == step.slowest,
        }

    @cached_property
    def _steps(self) -> dict[int, SlicedStep]:
        index = self.problem.graph.operator_index
        return {index[step.operator]: step for step in self.details.steps}

    def panels(self) -> Sequence[Panel]:
        """Who computes which part of every operator, and what the parts wait for."""
        index, steps = self.problem.graph.operator_index, self.details.steps
        devices, shared = [device.name for device in self.problem.cluster.devices], self.problem.channel == "shared"
        return [
            Parts(
                title="Slices",
                about="One row for each operator, in running order: its parts by device, and its time.",
                operators=[index[step.operator] for step in steps],
                shares=[[round(step.shares.get(name, 0.0), 5) for name in devices] for step in steps],
                words=[step.dimension for step in steps],
                waits=[s.airtime if shared else s.transfer_seconds[s.slowest] for s in steps],
                works=[step.compute_seconds[step.slowest] for step in steps],
            )
        ]

    def figure(self) -> Figure:
        """Draw the shares and times of every operator."""
        text, bound = self.subtitle(), self.result.bound
        text += "" if bound is None else f"; no plan takes less than {precise_seconds(bound)}"
        return slicing_figure(self.problem, self.details, headline=self.headline(), subtitle=text)

    def figures(self) -> dict[str, Figure]:
        """Add a Gantt chart of every device."""
        return {**super().figures(), "schedule.png": self.gantt_figure()}


def slicing_figure(problem: Slicing, details: SlicingDetails, *, headline: str, subtitle: str) -> Figure:
    """Draw one row per operator in running order: the devices' shares, and its time split into transfer and computing.

    Parameters
    ----------
    problem, details
        The problem, and what the referee measured of its solution.
    headline, subtitle
        The title, and the line under it.
    """
    count = max(1, len(details.steps))
    row = min(ROW_INCHES, MOST_HEIGHT / count)
    figure, (shares, times) = new_panels(11.0, 2.6 + row * count, (3.0, 4.0))
    _draw_shares(shares, problem, details)
    _draw_times(times, problem, details)
    for axes in (shares, times):
        axes.set_ylim(count - 0.4, -0.6)
        axes.grid(visible=False, axis="y")
        axes.grid(visible=True, axis="x", color="#E3E3E3", linewidth=0.8)
    step = max(1, -(-count // NAMED_ROWS))
    shares.set_yticks(range(0, count, step))
    names = [step.operator for step in details.steps][::step]
    shares.set_yticklabels([safe_text(name[:28]) for name in names], fontsize=max(5.0, min(8.5, 58 * row)))
    shares.tick_params(axis="y", length=0)
    times.set_yticks([])
    figure.suptitle(safe_text(headline), fontsize=14, fontweight="bold", x=0.01, ha="left")
    shares.set_title(safe_text(subtitle), fontsize=9.5, color=MUTED, loc="left")
    _add_legend(figure, problem)
    return figure


def device_colour(number: int) -> tuple[float, float, float]:
    """A different colour for each device.

    Examples
    --------
    >>> len({device_colour(number) for number in range(28)})
    28
    """
    from matplotlib.colors import to_rgb

    red, green, blue = to_rgb(DEVICE_COLOURS[number % len(DEVICE_COLOURS)])
    pale = 1 - 0.6 ** (number // len(DEVICE_COLOURS))
    return red + (1 - red) * pale, green + (1 - green) * pale, blue + (1 - blue) * pale


def _draw_shares(axes: Axes, problem: Slicing, details: SlicingDetails) -> None:
    """Draw the shares stacked; cuts along the channels are hatched."""
    left = np.zeros(len(details.steps))
    rows = np.arange(len(details.steps))
    along = np.asarray([step.dimension == "channels" for step in details.steps], dtype=bool)
    for k, device in enumerate(problem.cluster.devices):
        share = np.asarray([step.shares.get(device.name, 0.0) for step in details.steps])
        colour = device_colour(k)
        for chosen, hatch in ((~along, None), (along, "////")):
            axes.barh(
                rows[chosen],
                share[chosen],
                left=left[chosen],
                height=0.86,
                color=colour,
                hatch=hatch,
                edgecolor="white",
                linewidth=min(0.3, 20 / len(rows)),
            )
        left += share
    axes.set_xlim(0, 1)
    axes.set_xticks([0, 0.5, 1], ["0", "50", "100 %"])
    axes.set_xlabel("which device computes which part", fontsize=11)


def _draw_times(axes: Axes, problem: Slicing, details: SlicingDetails) -> None:
    """Draw the transfer and computing time of each operator's slowest device."""
    shared = problem.channel == "shared"
    wait = np.asarray([s.airtime if shared else s.transfer_seconds[s.slowest] for s in details.steps]) * 1000
    compute = np.asarray([s.compute_seconds[s.slowest] for s in details.steps]) * 1000
    rows = np.arange(len(details.steps))
    axes.barh(rows, wait, height=0.86, color=RECEIVING)
    axes.barh(rows, compute, left=wait, height=0.86, color=COMPUTING)
    axes.set_xlim(left=0.0)  # times begin at 0, even if nothing takes time
    share = wait.sum() / max(1e-12, wait.sum() + compute.sum())
    axes.set_xlabel(f"time of the slowest device (ms); {100 * share:.0f} % of it waiting for data", fontsize=11)


def _add_legend(figure: Figure, problem: Slicing) -> None:
    from matplotlib.patches import Patch

    handles = [
        Patch(color=device_colour(k), label=safe_text(device.name)) for k, device in enumerate(problem.cluster.devices)
    ]
    handles.append(Patch(facecolor="white", edgecolor=MUTED, hatch="////", label="cut along channels"))
    handles += [Patch(color=RECEIVING, label="receiving"), Patch(color=COMPUTING, label="computing")]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(8, len(handles)), frameon=False, fontsize=9.5)
