"""The command ``opweave llm``: where the groups of a language model should be, in one table and one picture."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from opweave.adapters.cli.output import NOTHING_FOUND, VERIFIED, note, say, tell
from opweave.adapters.cli.settings import Settings, with_settings
from opweave.adapters.error_messages import plain, validated
from opweave.adapters.files import write_text
from opweave.adapters.report.timeline_tables import Columns, Section, section_of
from opweave.adapters.report.view import Row
from opweave.problems.constraints import AnyConstraint
from opweave.problems.errors import InvalidInputError
from opweave.problems.language.model import LanguageModel
from opweave.problems.language.posed import fastest_pass, in_blocks, in_stages, with_overrides
from opweave.problems.language.rig import RESERVES, Rig, published_spread, reserve_bytes
from opweave.problems.language.workload import Workload
from opweave.problems.placement.spec import Placement, Schedule
from opweave.problems.result import Result, Status
from opweave.problems.units import parse_bytes, precise_seconds, readable, readable_bytes, readable_rate, readable_share

MORE_SECONDS, SECONDS = 5.0, 30.0
"""Time limit of each solve with more memory, and of each other solve by default."""

MAX = "max"
"""The context that stands for the longest one."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: the file, the model, the devices, the workload and more rules, for at most so many seconds."""

    file: Path
    model: LanguageModel
    rig: Rig
    work: Workload
    constraints: tuple[AnyConstraint, ...]
    limit: float

    @property
    def posed(self) -> Placement:
        """The question as a placement."""
        return fastest_pass(self.model, self.rig, self.work, constraints=self.constraints)


@with_settings()
def llm_command(
    model: Path,
    *,
    devices: str,
    context: str = "4096",
    phase: str = "decode",
    sequences: int = 1,
    batch: int = 512,
    keys: str = "f16",
    values: str = "f16",
    dtype: str | None = None,
    host: str | None = None,
    reserve: str | None = None,
    slowest: float | None = None,
    layers: str = "split",
    machines: bool = False,
    settings: Settings,
) -> int:
    """Plan a language model on the devices you have: who holds what, how full, how fast, and what is proved."""
    from opweave.adapters.llm.machine import checked_rig, load_rig
    from opweave.adapters.llm.reading import read

    if slowest is not None and context != MAX:
        raise InvalidInputError("--slowest asks for the longest context at that speed; add --context max")
    if context != MAX and not (context.isascii() and context.isdigit() and 0 < len(context) < 16 and int(context)):
        raise InvalidInputError(f"--context {context!r:.40}: it is a number of tokens from 1, or {MAX}")
    read_model = read(model, dtype=dtype)
    tokens = (read_model.longest or 2**22) if context == MAX else int(context)
    work = {"phase": phase, "context": tokens, "sequences": sequences, "batch": batch, "keys": keys, "values": values}
    asked = validated(Workload, work, "the workload")
    rig = checked_rig(_changed(load_rig(devices), host, reserve, read_model, asked))
    rules: dict[str, Any] = {"whole": in_stages, "split": in_blocks, "free": lambda *_: ()}
    if layers not in rules:
        raise InvalidInputError(f"--layers {layers!r:.40}: it is whole, split or free")
    limit = settings.time_limit or SECONDS
    question = Question(model, read_model, rig, asked, rules[layers](read_model, rig, asked), limit)
    if context == MAX:
        question = _longest(question, slowest, quiet=settings.as_json)
    if not question.work.context:
        return NOTHING_FOUND
    result = _solved(question, settings)
    if layers == "split" and result.status is Status.INFEASIBLE:
        note(f"{result.reason}; with -ot, tensors may be on other devices than their layer")
        question = replace(question, constraints=with_overrides(read_model, rig))
        result = _solved(question, settings)
    tell(
        result,
        settings.output,
        lambda console: _show(console, question, result, machines=machines),
        lambda: () if settings.report is None else _report(question, result, settings.report),
        as_json=settings.as_json,
    )
    return VERIFIED if result.verified else NOTHING_FOUND


def _changed(rig: Rig, host: str | None, reserve: str | None, model: LanguageModel, work: Workload) -> Rig:
    """The rig as the command line changes it; one without reserves gets those of the rule "buffers"."""
    data: dict[str, object] = {field: getattr(rig, field) for field in Rig.model_fields}
    data["host"] = host or rig.host
    if reserve is not None or not rig.reserve:
        rule = reserve or "buffers"
        try:
            size = reserve_bytes(model, work, rule) if rule in RESERVES else parse_bytes(rule)
        except InvalidInputError as error:
            raise InvalidInputError(f"--reserve: {error}, or take one of {', '.join(RESERVES)}") from None
        limits = {device.name: device.memory_bytes for device in rig.cluster.devices}
        data["reserve"] = {name: min(size, limit) for name, limit in limits.items() if limit is not None}
    return Rig.model_validate(data)


def _longest(question: Question, slowest: float | None, *, quiet: bool) -> Question:
    """Find the longest context and say why it cannot be longer; 0 if there is none."""
    from opweave.solvers.language.questions import longest_context

    more: dict[str, Any] = {"seconds": slowest, "constraints": question.constraints, "time_limit": question.limit}
    found = longest_context(question.model, question.rig, question.work, **more)
    beyond = "the model was trained for no more"
    if found.refused is not None:
        proof = "it is proved that" if found.proved else "in the time given,"
        reason = f": {found.reason}" if found.reason else ""
        beyond = f"{proof} {found.refused:,} tokens are too many{reason}"
    if not quiet or not found.context:
        note(f"longest context: {found.context:,} tokens; {beyond}" if found.context else f"no context fits; {beyond}")
    return replace(question, work=question.work.model_copy(update={"context": found.context}))


def _solved(question: Question, settings: Settings) -> Result[Schedule]:
    from opweave.solvers.solve import solve

    solver = "layers" if settings.solver == "auto" else settings.solver
    limited: dict[str, Any] = {"time_limit": question.limit, "seed": settings.seed, "solver": solver}
    return solve(question.posed, **{**settings.of_solve, **limited})


def _show(console: Console, question: Question, result: Result[Schedule], *, machines: bool) -> None:
    """The facts, the devices, what limits the plan, other splits, and the command lines of runtimes."""
    from opweave.adapters.llm.held import holdings, holdings_section
    from opweave.adapters.llm.words import plan_in_words
    from opweave.adapters.report.tables import facts_table, section_table
    from opweave.adapters.runtimes.language import exchanged
    from opweave.solvers.language.questions import next_bytes, which_machines

    model, rig, work, problem = question.model, question.rig, question.work, question.posed
    asked: dict[str, Any] = {"constraints": question.constraints}
    console.print(facts_table(_facts(question, result), {"status": "bold"}))
    more: dict[str, float | None] = {}
    if result.solution is not None:
        as_in_commands = exchanged(model, result.solution.device)
        shown = result.solution.model_copy(update={"device": as_in_commands})
        console.print(section_table(holdings_section(holdings(model, rig, work, problem, shown))))
        swept = next_bytes(model, rig, work, **asked, time_limit=min(question.limit, MORE_SECONDS))
        more = {str(row.values[axis]): row.objective for row in swept.rows for axis in row.values}
        more.pop("none", None)
    _print(console, plan_in_words(model, rig, work, problem, result, with_more=more))
    if result.solution is None:
        return
    console.print(section_table(_splits(problem, result)))
    if machines:
        say(console, str(which_machines(model, rig, work, **asked, time_limit=question.limit)))
    settings = _runtimes(question, result.solution)
    alone = question.file.suffix.lower() == ".gguf" or any("apple" in each.name for each in rig.cluster.devices)
    for runtime in ("llama.cpp", *(() if alone else ("vLLM",))):
        found = settings[runtime]
        cannot = isinstance(found, dict)
        _print(console, f"{runtime} cannot carry out this plan: {found['not possible']}" if cannot else str(found))


def _print(console: Console, text: str) -> None:
    """Print a long line that can be copied."""
    console.print(plain(text), markup=False, highlight=False, soft_wrap=True)


def _facts(question: Question, result: Result[Schedule]) -> list[Row]:
    """The model, the speed and what is proved, with what published runs would have taken where this is predicted."""
    model, work, seconds = question.model, question.work, result.objective
    cache = work.sequences * model.cache_bytes(work.context, work.keys, work.values)
    size = f"{model.name}: {len(model.layers)} layers, {readable_bytes(model.parameter_bytes)} of weights"
    rows = [("model", f"{size}, {readable_bytes(cache)} of caches for {work.context:,} tokens")]
    rows.append(("status", result.status.value))
    if seconds is not None:
        rate = work.tokens / seconds if seconds else float("inf")
        what = "a token" if work.phase == "decode" else f"{work.tokens:,} tokens of the prompt"
        rows.append((work.phase, f"{precise_seconds(seconds)} for {what}: {readable_rate(rate)} tokens/s"))
        spread = published_spread(question.rig.efficiency)
        low, high = (precise_seconds(each * seconds) for each in (spread.least, spread.most))
        off = f"{spread.least:.2f} to {spread.most:.2f} times what is predicted like this"
        took = f"{low} to {high}: {spread.runs} published runs of llama.cpp took {off}"
        rows.append(("measured, if data sheets are the source", took))
        proved = result.status is Status.OPTIMAL
        proof = "proved: no plan is faster" if proved else f"gap {readable_share(result.gap)}"
        rows.append(("lower bound", f"{readable(result.bound, 'seconds')}, {proof}"))
    rows.append(("time", precise_seconds(result.timings.total)))
    return [*rows, ("reason", result.reason)] if result.reason else rows


def _splits(problem: Placement, result: Result[Schedule]) -> Section:
    """The simple splits beside the plan."""
    from opweave.solvers.language.baselines import other_splits

    best = result.objective
    columns: Columns = {
        "split": lambda split: split.name,
        "seconds": lambda split: readable(split.seconds, "seconds"),
        "times the plan": lambda split: f"{split.seconds / best:.2f}" if split.seconds and best else "-",
        "why not": lambda split: split.reason or "",
    }
    return section_of("Other splits", other_splits(problem), columns)


def _runtimes(question: Question, schedule: Schedule) -> dict[str, Any]:
    """The plan for every runtime."""
    from opweave.adapters.llm.machine import HERE
    from opweave.adapters.runtimes import language_settings

    name = str(question.file) if question.file.suffix.lower() == ".gguf" else "model.gguf"
    rig = question.rig
    far = {machine: names for machine, names in rig.machines.items() if machine != HERE and rig.host not in names}
    return language_settings(question.model, schedule, question.work, host=rig.host, machines=far, file=name)


def _report(question: Question, result: Result[Schedule], folder: Path) -> list[Path]:
    """The report of the placement, the picture of who holds what, and the settings of runtimes."""
    from opweave.adapters.llm.held import holdings, language_figure
    from opweave.adapters.report.figures import save_figure
    from opweave.adapters.report.report import write_report
    from opweave.adapters.report.views import show

    problem = question.posed
    files = write_report(show(problem, result), folder)
    if result.solution is None:
        return files
    headline = f"{question.model.name[:40]}: {precise_seconds(result.objective or 0.0)} a pass"
    proof = "proved to be the least" if result.gap == 0.0 else f"at most {readable_share(result.gap)} above the least"
    subtitle = f"{question.work.context:,} tokens of context, {question.work.phase}; {proof}"
    found = holdings(question.model, question.rig, question.work, problem, result.solution)
    save_figure(language_figure(found, headline=headline, subtitle=subtitle), folder / "devices.png")
    write_text(folder / "runtimes.json", json.dumps(_runtimes(question, result.solution), indent=2) + "\n")
    return [*files, folder / "devices.png", folder / "runtimes.json"]
