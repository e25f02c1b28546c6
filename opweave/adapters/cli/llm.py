"""The command ``opweave llm``: where the groups of a language model should be, in one table and one picture."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, cast

import typer
from rich.console import Console

from opweave.adapters.cli.output import NOTHING_FOUND, VERIFIED, name_files, note, say, stdout
from opweave.adapters.cli.settings import Settings, with_fields, with_settings
from opweave.adapters.error_messages import plain
from opweave.adapters.files import make_folder, write_text
from opweave.adapters.load import save
from opweave.problems.constraints import AnyConstraint
from opweave.problems.errors import InvalidInputError
from opweave.problems.language.model import LanguageModel
from opweave.problems.language.posed import by_layer, fastest_pass, whole_layers
from opweave.problems.language.rig import Rig
from opweave.problems.language.workload import Phase, Workload
from opweave.problems.placement.spec import Placement, Schedule
from opweave.problems.result import Result
from opweave.problems.units import parse_bytes, precise_seconds, readable, readable_bytes, readable_rate, readable_share

MORE_SECONDS = 5.0
"""Time limit of each solve with more memory."""

SECONDS = 30.0
"""Time limit of each solve by default."""

PROVED = 2e-6
"""Gap below which seconds count as equal."""


MAX = "max"
"""The context that stands for the longest one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What is asked of a language model; every field is an option of the command line."""

    devices: Annotated[
        str,
        typer.Option(
            "--devices", "-d", help="A rig or a cluster as JSON, a cluster by name, or here.", show_default=False
        ),
    ]
    context: Annotated[str, typer.Option("--context", "-c", help="Tokens of context, or max.")] = "4096"
    phase: Annotated[str, typer.Option("--phase", help="decode, or prefill (reading a prompt).")] = "decode"
    sequences: Annotated[int, typer.Option("--sequences", min=1, help="Requests at the same time.")] = 1
    batch: Annotated[int, typer.Option("--batch", min=1, help="Tokens of a prompt that are read at once.")] = 512
    keys: Annotated[str, typer.Option("--keys", help="Type of the cached keys.")] = "f16"
    values: Annotated[str, typer.Option("--values", help="Type of the cached values.")] = "f16"
    dtype: Annotated[str | None, typer.Option("--dtype", help="For config.json: type of the matrices.")] = None
    host: Annotated[str | None, typer.Option("--host", help="Device that is the processor with its memory.")] = None
    reserve: Annotated[
        str | None, typer.Option("--reserve", help="Left free on every device: 1GiB, or buffers, fit, unsloth, none.")
    ] = None
    slowest: Annotated[
        float | None, typer.Option("--slowest", help="With --context max: most seconds for a token.")
    ] = None
    layers: Annotated[
        str, typer.Option("--layers", help="Layers whole, split (parts in host memory, too), or free (anywhere).")
    ] = "split"
    machines: Annotated[bool, typer.Option("--machines", help="Compare the sets of machines, too.")] = False

    def check(self) -> None:
        """Refuse words that no option has, and options that lack another one.

        Raises
        ------
        InvalidInputError
            Names the option.
        """
        if self.phase not in ("decode", "prefill"):
            raise InvalidInputError(f"--phase {self.phase!r:.40}: it is decode or prefill")
        if self.layers not in ("whole", "split", "free"):
            raise InvalidInputError(f"--layers {self.layers!r:.40}: it is whole, split or free")
        if self.slowest is not None and self.context != MAX:
            raise InvalidInputError("--slowest asks for the longest context at that speed; add --context max")


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: the model, the devices, the workload and more rules."""

    model: LanguageModel
    rig: Rig
    work: Workload
    constraints: tuple[AnyConstraint, ...]
    blocks: bool

    def posed(self) -> Placement:
        """The question as a placement."""
        return fastest_pass(self.model, self.rig, self.work, constraints=self.constraints)


def _llm(
    model: Annotated[
        Path, typer.Argument(help="A language model: .gguf, .safetensors or config.json.", show_default=False)
    ],
    *,
    wishes: Wishes,
    settings: Settings,
) -> int:
    """Plan a language model on the devices you have: who holds what, how full, how fast, and what is proved."""
    question = _asked(model, wishes)
    console, limit = stdout(), settings.time_limit or SECONDS
    if wishes.context == MAX:
        fitting = _longest(question, wishes.slowest, limit, quiet=settings.as_json)
        if fitting is None:
            return NOTHING_FOUND
        question = replace(question, work=fitting)
    return _answer(console, question, model, settings, limit, machines=wishes.machines)


llm_command = with_settings(with_fields(_llm, "wishes", Wishes))


def _asked(file: Path, wishes: Wishes) -> Question:
    """The question that the command line asks; the longest context begins with the one that the model was made for."""
    from opweave.adapters.llm.machine import checked_rig, load_rig
    from opweave.adapters.llm.reading import read

    model = read(file, dtype=wishes.dtype)
    work = Workload(
        phase=cast("Phase", wishes.phase),
        context=(model.longest or 2**22) if wishes.context == MAX else _whole("--context", wishes.context),
        sequences=wishes.sequences,
        batch=wishes.batch,
        keys=wishes.keys,
        values=wishes.values,
    )
    rig = checked_rig(_with_options(load_rig(wishes.devices), wishes.host, wishes.reserve, model, work))
    kept = {"whole": whole_layers(model, work), "split": by_layer(model, rig, work)}
    return Question(model, rig, work, kept.get(wishes.layers, ()), wishes.layers == "split")


def _whole(flag: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < len(text) < 16 and int(text) > 0):
        raise InvalidInputError(f"{flag} {text!r:.40}: it is a number of tokens from 1, or {MAX}")
    return int(text)


def _with_options(rig: Rig, host: str | None, reserve: str | None, model: LanguageModel, work: Workload) -> Rig:
    """The rig as the command line changes it; one without reserves gets those of the rule "buffers"."""
    from opweave.problems.language.rig import RESERVES, reserve_bytes

    data: dict[str, object] = {field: getattr(rig, field) for field in Rig.model_fields}
    if host is not None:
        data["host"] = host
    if reserve is not None or not rig.reserve:
        rule = reserve or "buffers"
        try:
            size = reserve_bytes(model, work, rule) if rule in RESERVES else parse_bytes(rule)
        except InvalidInputError as error:
            raise InvalidInputError(f"--reserve: {error}, or take one of {', '.join(RESERVES)}") from None
        limits = {device.name: device.memory_bytes for device in rig.cluster.devices}
        data["reserve"] = {name: min(size, limit) for name, limit in limits.items() if limit is not None}
    return Rig.model_validate(data)


def _longest(question: Question, slowest: float | None, limit: float, *, quiet: bool) -> Workload | None:
    """Find the longest context and say why it cannot be longer; None if there is none."""
    from opweave.solvers.language.questions import longest_context

    found = longest_context(
        question.model, question.rig, question.work, seconds=slowest, constraints=question.constraints, time_limit=limit
    )
    if not quiet or not found.context:
        beyond = "the model was trained for no more"
        if found.refused is not None:
            proof = "it is proved that" if found.proved else "in the time given,"
            reason = f": {found.reason}" if found.reason else ""
            beyond = f"{proof} {found.refused:,} tokens are too many{reason}"
        words = (
            f"longest context: {found.context:,} tokens; {beyond}" if found.context else f"no context fits; {beyond}"
        )
        note(words)
    return question.work.model_copy(update={"context": found.context}) if found.context else None


def _answer(
    console: Console, question: Question, file: Path, settings: Settings, limit: float, *, machines: bool
) -> int:
    """Solve, and show everything."""
    problem, result, bound = _solved(question, settings, limit)
    files = []
    if settings.output is not None:
        save(result, settings.output)
        files.append(settings.output)
    if settings.as_json:
        typer.echo(result.model_dump_json())
        return VERIFIED if result.verified else NOTHING_FOUND
    _show(console, question, problem, result, bound)
    _words(console, question, problem, result, limit)
    if result.solution is None:
        return NOTHING_FOUND
    _compare(console, problem, result)
    if machines:
        _machines(console, question, limit)
    _command(console, question, result.solution, file)
    if settings.report is not None:
        files += _report(question, problem, result, settings.report)
        runtimes = settings.report / "runtimes.json"
        write_text(runtimes, json.dumps(_settings_of(question, result.solution, file), indent=2) + "\n")
        files.append(runtimes)
    name_files(console, files)
    return VERIFIED


def _solved(question: Question, settings: Settings, limit: float) -> tuple[Placement, Result[Schedule], float | None]:
    """The question as it was answered, its answer, and the bound whatever the order of the devices is."""
    from opweave.solvers.language.questions import fastest_in_blocks
    from opweave.solvers.solve import solve

    problem = question.posed()
    if question.blocks and settings.solver == "auto":
        found = fastest_in_blocks(question.model, question.rig, question.work, time_limit=limit, seed=settings.seed)
        return problem, found.result, found.bound
    solver = "layers" if settings.solver == "auto" else settings.solver
    result = solve(
        problem,
        solver=solver,
        time_limit=limit,
        gap=settings.gap,
        seed=settings.seed,
        threads=settings.threads,
        options=settings.options,
    )
    return problem, result, result.bound


def _show(
    console: Console, question: Question, problem: Placement, result: Result[Schedule], bound: float | None
) -> None:
    """The facts, and the devices."""
    from opweave.adapters.llm.held import holdings, holdings_section
    from opweave.adapters.report.tables import facts_table, section_table

    model, work = question.model, question.work
    cache = work.sequences * model.cache_bytes(work.context, work.keys, work.values)
    size = f"{model.name}: {len(model.layers)} layers, {readable_bytes(model.parameter_bytes)} of weights"
    rows = [("model", f"{size}, {readable_bytes(cache)} of caches for {work.context:,} tokens")]
    rows.append(("status", result.status.value))
    if result.objective is not None:
        rate = work.tokens / result.objective if result.objective else float("inf")
        what = "a token" if work.phase == "decode" else f"{work.tokens:,} tokens of the prompt"
        rows.append((work.phase, f"{precise_seconds(result.objective)} for {what}: {readable_rate(rate)} tokens/s"))
        rows.append(("measured, if data sheets are the source", _spread(question.rig, result.objective)))
        gap = None if bound is None or not result.objective else max(0.0, 1.0 - bound / result.objective)
        proof = "proved: no plan is faster" if gap is not None and gap < PROVED else f"gap {readable_share(gap)}"
        rows.append(("lower bound", f"{readable(bound, 'seconds')}, {proof}"))
    rows.append(("time", precise_seconds(result.timings.total)))
    if result.reason:
        rows.append(("reason", result.reason))
    console.print(facts_table(rows, {"status": "bold"}))
    if result.solution is not None:
        found = holdings(model, question.rig, work, problem, result.solution)
        console.print(section_table(holdings_section(found)))


def _spread(rig: Rig, seconds: float) -> str:
    """What published runs would have taken where this is predicted."""
    from opweave.problems.language.rig import published_spread

    spread = published_spread(rig.efficiency)
    low, high = (precise_seconds(each * seconds) for each in (spread.least, spread.most))
    off = f"{spread.least:.2f} to {spread.most:.2f} times what is predicted like this"
    return f"{low} to {high}: {spread.runs} published runs of llama.cpp took {off}"


def _words(console: Console, question: Question, problem: Placement, result: Result[Schedule], limit: float) -> None:
    """What limits the plan, and what one more gibibyte on each device would bring; or how many bytes are missing."""
    from opweave.adapters.llm.words import plan_in_words
    from opweave.solvers.language.questions import next_bytes

    model, rig, work = question.model, question.rig, question.work
    more: dict[str, float | None] = {}
    if result.solution is not None:
        swept = next_bytes(model, rig, work, constraints=question.constraints, time_limit=min(limit, MORE_SECONDS))
        more = {str(row.values[axis]): row.objective for row in swept.rows for axis in row.values}
        more.pop("none", None)
    words = plan_in_words(model, rig, work, problem, result, with_more=more)
    console.print(plain(words), markup=False, highlight=False, soft_wrap=True)


def _compare(console: Console, problem: Placement, result: Result[Schedule]) -> None:
    """The simple splits beside the plan."""
    from opweave.adapters.report.tables import section_table
    from opweave.adapters.report.view import Section
    from opweave.solvers.language.baselines import other_splits

    rows: list[Sequence[str]] = []
    for split in other_splits(problem):
        seconds = "-" if split.seconds is None else precise_seconds(split.seconds)
        times = f"{split.seconds / result.objective:.2f}" if split.seconds and result.objective else "-"
        rows.append((split.name, seconds, times, split.reason or ""))
    console.print(section_table(Section("Other splits", ("split", "seconds", "times the plan", "why not"), rows)))


def _machines(console: Console, question: Question, limit: float) -> None:
    """All sets of machines."""
    from opweave.solvers.language.questions import which_machines

    found = which_machines(
        question.model, question.rig, question.work, constraints=question.constraints, time_limit=limit
    )
    say(console, str(found))


def _settings_of(question: Question, schedule: Schedule, file: Path) -> dict[str, object]:
    """The plan for every runtime."""
    from opweave.adapters.runtimes import language_settings

    name = str(file) if file.suffix.lower() == ".gguf" else "model.gguf"
    return language_settings(question.model, schedule, question.work, host=question.rig.host, file=name)


def _command(console: Console, question: Question, schedule: Schedule, file: Path) -> None:
    """The command lines of llama.cpp, and of vLLM for files that it reads; or why there is none."""
    settings = _settings_of(question, schedule, file)
    if question.rig.host is None:
        settings["llama.cpp"] = "llama.cpp: name the device that is the processor with --host to get its command line"
    for runtime in ("llama.cpp", *(() if file.suffix.lower() == ".gguf" else ("vLLM",))):
        found = settings[runtime]
        words = f"{runtime} cannot carry out this plan: {found['not possible']}" if isinstance(found, dict) else found
        console.print(plain(str(words)), markup=False, highlight=False, soft_wrap=True)


def _report(question: Question, problem: Placement, result: Result[Schedule], folder: Path) -> list[Path]:
    """The report of the placement, and the picture of who holds what."""
    from opweave.adapters.llm.held import holdings, language_figure
    from opweave.adapters.report.figures import save_figure
    from opweave.adapters.report.report import write_report
    from opweave.adapters.report.views import show

    assert result.solution is not None
    files = write_report(show(problem, result), folder)
    picture = make_folder(folder) / "devices.png"
    headline = f"{question.model.name[:40]}: {precise_seconds(result.objective or 0.0)} a pass"
    proof = "proved to be the least" if result.gap == 0.0 else f"at most {readable_share(result.gap)} above the least"
    subtitle = f"{question.work.context:,} tokens of context, {question.work.phase}; {proof}"
    found = holdings(question.model, question.rig, question.work, problem, result.solution)
    save_figure(language_figure(found, headline=headline, subtitle=subtitle), picture)
    return [*files, picture]
