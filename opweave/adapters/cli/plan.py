"""The commands that plan a model file: one for each problem, with its own options, and ``opweave plan`` for all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from opweave.adapters.cli.completion import problem_words
from opweave.adapters.cli.flags import fields_of, with_flags
from opweave.adapters.cli.layouts import is_lifetimes, layout_problem
from opweave.adapters.cli.models import runtime_problem
from opweave.adapters.cli.settings import DimOption, ExampleOption, Settings, dimensions, with_options, with_settings
from opweave.adapters.cli.solving import solve_and_tell
from opweave.adapters.costs.default_costs import missing_costs
from opweave.adapters.error_messages import validated
from opweave.adapters.example_inputs import Arrays, read_arrays, sizes_given
from opweave.adapters.formats import family_of
from opweave.adapters.load import AnyProblem, geometry, is_instance, load, load_problem
from opweave.adapters.report.view import AnyView
from opweave.adapters.report.views import view_for


@dataclass(frozen=True, slots=True)
class ProblemCommand:
    """The command of one problem.

    Attributes
    ----------
    word
        Its name; also the problem's name for ``opweave plan --problem``.
    about
        What it decides, in one sentence.
    examples
        Command lines for the end of its help.
    """

    word: str
    about: str
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Source:
    """A model file, and what the command line says of the sizes of its inputs."""

    model: Path
    dim: list[str] | None
    example_inputs: Path | None

    def read(self) -> tuple[Arrays | None, dict[str, int]]:
        """The example inputs, and the sizes of open dimensions."""
        inputs = None if self.example_inputs is None else read_arrays(self.example_inputs)
        return inputs, {**sizes_given(self.model, inputs or {}), **dimensions(self.dim)}


COMMANDS = (
    ProblemCommand(
        "ordering",
        "In which order should operators run? The least peak memory, or the least memory over time.",
        ("opweave ordering model.onnx", "opweave ordering model.pt2 --in-place first --limit 6MiB --report page"),
    ),
    ProblemCommand(
        "placement",
        "On which device should each operator run? The least seconds for one input.",
        (
            "opweave placement model.onnx --cluster moirai-inter -t 60",
            "opweave placement model.json --cluster rig.json --costs ms.json --pin head=a",
            "opweave placement shop.fjs -t 60",
        ),
    ),
    ProblemCommand(
        "batched",
        "Which device runs how many inputs of each operator? The least seconds for a batch.",
        ("opweave batched model.onnx --cluster home --batch 16",),
    ),
    ProblemCommand(
        "pipeline",
        "Where should a model be cut into stages? The shortest bottleneck, or the least latency.",
        (
            "opweave pipeline model.onnx --cluster boards",
            "opweave pipeline model.onnx --cluster home --objective latency -t 10",
        ),
    ),
    ProblemCommand(
        "slicing",
        "How should operators be cut across devices? The least seconds for one input.",
        ("opweave slicing model.onnx --cluster boards --weights streamed",),
    ),
    ProblemCommand(
        "layout",
        "At which address should each tensor lie? The smallest arena, of a model or of lifetimes in a CSV.",
        ("opweave layout model.onnx", "opweave layout lifetimes.csv --capacity 1MiB"),
    ),
)
"""The commands of problems, in the order in which the help lists them."""

STATED = {"--cluster", "--costs"}
"""Flags without which a published instance brings its own devices and costs."""

AsIsOption = Annotated[
    bool, typer.Option("--as-is", help="Order the file's operators, not those of ONNX Runtime's optimiser.")
]
ModelArgument = Annotated[
    Path,
    typer.Argument(
        help="A model: .onnx, .pt2, .tflite, .xml, .json; a .csv for layout, a .fjs for placement.", show_default=False
    ),
]


@with_settings
@with_flags
def plan_command(
    model: ModelArgument,
    *,
    problem: Annotated[
        str | None,
        typer.Option(
            "--problem",
            "-p",
            help=f"What to plan: {', '.join(each.word for each in COMMANDS)}. "
            "By default ordering, of a CSV layout, of a job shop placement.",
            autocompletion=problem_words,
        ),
    ] = None,
    dim: DimOption = None,
    example_inputs: ExampleOption = None,
    as_is: AsIsOption = False,
    flags: Mapping[str, object],
    settings: Settings,
) -> int:
    """Plan a model file in one step: load it, solve the problem, verify and show the plan.

    It takes the options of every problem; 'opweave PROBLEM --help' lists those of one, as in 'opweave pipeline --help'.
    For an order of an ONNX file, the operators are those that ONNX Runtime's optimiser leaves, if it is installed.
    A published instance brings its devices and costs.
    """
    usual = "placement" if family_of(model) == "job shop" else "layout" if is_lifetimes(model) else "ordering"
    view, source = view_for(problem or usual), Source(model, dim, example_inputs)
    return solve_and_tell(_posed(view, source, flags, settings, as_is=as_is), settings)


def command_of(word: str) -> Callable[..., int]:
    """Make the command of a problem, with the flags of that problem alone."""
    view = view_for(word)

    def command(
        model: ModelArgument,
        *,
        dim: DimOption = None,
        example_inputs: ExampleOption = None,
        as_is: AsIsOption = False,
        flags: Mapping[str, object],
        settings: Settings,
    ) -> int:
        source = Source(model, dim, example_inputs)
        return solve_and_tell(_posed(view, source, flags, settings, as_is=as_is), settings)

    own = with_settings(with_flags(command, word))
    return own if word == "ordering" else with_options(own, "as_is", [], lambda _: False)


def _posed(
    view: type[AnyView], source: Source, flags: Mapping[str, object], settings: Settings, *, as_is: bool
) -> AnyProblem:
    """Pose the problem of a view about a model file."""
    model = source.model
    job_shop = family_of(model) == "job shop"
    if job_shop or (STATED.isdisjoint(flags) and view.word in ("placement", "pipeline") and is_instance(model)):
        known = load_problem(model, kind=view.problem_type.kind)
        fields = fields_of(view, flags, stated=("cluster", "costs"))
        given = {name: getattr(known, name) for name in known.model_fields_set} | fields
        return validated(view.problem_type, given, f"problem {view.word}")
    fields = fields_of(view, flags)
    inputs, dims = source.read()
    if view.word == "layout":
        return layout_problem(model, dims, inputs, fields, settings.time_limit)
    counted = None if as_is or view.word != "ordering" else runtime_problem(model, dims, inputs)
    if counted is not None:
        return validated(view.problem_type, counted | fields, f"problem {view.word}")
    graph = load(model, dims=dims, inputs=inputs)
    fields |= missing_costs(graph, fields)
    if "geometry" in view.problem_type.model_fields and "geometry" not in fields:
        fields["geometry"] = geometry(model, graph=graph, dims=dims)
    return validated(view.problem_type, {"graph": graph, **fields}, f"problem {view.word}")
