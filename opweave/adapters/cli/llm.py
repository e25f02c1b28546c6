"""The command ``opweave llm``: where the groups of a language model should be, in one table and one picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.text import Text

from opweave.adapters.cli.options import Settings
from opweave.adapters.cli.output import NOTHING_FOUND, say, shown, tell_result
from opweave.adapters.error_messages import validated
from opweave.adapters.llm.held import holdings, holdings_section, language_figure
from opweave.adapters.llm.machine import HERE
from opweave.adapters.llm.words import plan_in_words
from opweave.adapters.report.mapping import PlacementView
from opweave.adapters.report.timeline_tables import Columns, Section, section_of
from opweave.adapters.report.view import Row
from opweave.adapters.runtimes.language import exchanged
from opweave.problems.constraints import AnyConstraint
from opweave.problems.errors import InvalidInputError, plain
from opweave.problems.language.model import LanguageModel
from opweave.problems.language.posed import fastest_pass, in_blocks, in_stages, with_overrides
from opweave.problems.language.rig import RESERVES, Rig, published_spread, reserve_bytes
from opweave.problems.language.workload import Workload
from opweave.problems.placement.spec import Placement, Schedule
from opweave.problems.result import Result, Status
from opweave.problems.units import parse_bytes, precise_seconds, readable, readable_bytes, readable_rate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MORE_SECONDS, SECONDS = 5.0, 30.0
"""Time limit of each solve with more memory, and of each other solve by default."""

ELSEWHERE = "; this machine was asked about: describe the devices in a file, and name it with --devices"
"""What to write where this machine does not say enough of itself."""

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


def llm_command(
    model: Path,
    *,
    devices: str = "here",
    context: str = "4096",
    dtype: str | None = None,
    reserve: str | None = None,
    slowest: float | None = None,
    layers: str = "split",
    machines: bool = False,
    flags: dict[str, Any],
    settings: Settings,
) -> int:
    """Plan a language model on your devices: what each one holds, how fast it is, and what is proved."""
    from opweave.adapters.llm.machine import checked_rig, load_rig
    from opweave.adapters.llm.reading import read

    if slowest is not None and context != MAX:
        raise InvalidInputError("--slowest asks for the longest context at that speed; add --context max")
    if context != MAX and not (context.isascii() and context.isdigit() and 0 < len(context) < 16 and int(context)):
        raise InvalidInputError(f"--context {context!r:.40}: it is a number of tokens from 1, or {MAX}")
    if layers not in KEPT:
        raise InvalidInputError(f"--layers {layers!r:.40}: it is whole, split or free")
    read_model = read(model, dtype=dtype)
    host, tokens = flags.pop("host", None), (read_model.longest or 2**22) if context == MAX else int(context)
    asked = validated(Workload, {**flags, "context": tokens}, "the workload")
    try:
        rig = checked_rig(load_rig(devices))
    except InvalidInputError as error:
        raise InvalidInputError(f"{error}{ELSEWHERE if devices == HERE else ''}") from None
    rig = _changed(rig, host, reserve, read_model, asked)
    constraints = KEPT[layers](read_model, rig, asked)
    question = Question(model, read_model, rig, asked, constraints, settings.time_limit or SECONDS)
    if context == MAX:
        question = _longest(question, slowest, quiet=settings.as_json)
    if not question.work.context:
        return NOTHING_FOUND
    result = _solved(question, settings)
    if layers == "split" and result.status is Status.INFEASIBLE:
        say(f"{result.reason}; with -ot, tensors may be on other devices than their layer")
        question = replace(question, constraints=with_overrides(read_model, rig))
        result = _solved(question, settings)
    view = LanguageView(question, result)
    return tell_result(view, settings, lambda: _shown(view, machines=machines))


KEPT: Mapping[str, Callable[[LanguageModel, Rig, Workload], tuple[AnyConstraint, ...]]] = {
    "whole": in_stages,
    "split": in_blocks,
    "free": lambda *_: (),
}
"""The constraints of each choice of ``--layers``."""


def _changed(rig: Rig, host: str | None, reserve: str | None, model: LanguageModel, work: Workload) -> Rig:
    """The rig as the command line changes it; one without reserves gets those of the rule "buffers"."""
    data = {field: getattr(rig, field) for field in Rig.model_fields} | {"host": host or rig.host}
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
        say(f"longest context: {found.context:,} tokens; {beyond}" if found.context else f"no context fits; {beyond}")
    return replace(question, work=question.work.model_copy(update={"context": found.context}))


def _solved(question: Question, settings: Settings) -> Result[Schedule]:
    from opweave.solvers.solve import solve

    solver = "layers" if settings.solver == "auto" else settings.solver
    limited: dict[str, Any] = {"time_limit": question.limit, "seed": settings.seed, "solver": solver}
    return solve(question.posed, **{**settings.of_solve, **limited})


class LanguageView(PlacementView):
    """Tokens a second, what every device holds, what limits the plan, other splits, and the settings of runtimes."""

    noun, better, file = "plan", "faster", "devices"

    def __init__(self, question: Question, result: Result[Schedule]) -> None:
        super().__init__(question.posed, result)
        self.question = question
        self.asked = (question.model, question.rig, question.work)

    def rows(self) -> list[Row]:
        """The bytes, the speed, and what published runs would have taken where this is predicted."""
        model, work, seconds = self.question.model, self.question.work, self.result.objective
        cache = work.sequences * model.cache_bytes(work.context, work.keys, work.values)
        size = f"{readable_bytes(model.parameter_bytes)} of weights in {len(model.layers)} layers"
        rows = [("holds", f"{size}, {readable_bytes(cache)} of caches for {work.context:,} tokens")]
        if seconds is not None:
            rows.append((work.phase, f"{precise_seconds(seconds)} for {self.goal()}: {self.amount()}"))
            spread = published_spread(self.question.rig.efficiency)
            low, high = (precise_seconds(each * seconds) for each in (spread.least, spread.most))
            off = f"{spread.least:.2f} to {spread.most:.2f} times what is predicted like this"
            took = f"{low} to {high}: {spread.runs} published runs of llama.cpp took {off}"
            rows.append(("measured, if data sheets are the source", took))
        return rows

    def goal(self) -> str:
        """What takes the time."""
        work = self.question.work
        return "a token" if work.phase == "decode" else f"{work.tokens:,} tokens of the prompt"

    def amount(self) -> str:
        """Tokens a second."""
        seconds = self.result.objective
        return f"{readable_rate(self.question.work.tokens / seconds if seconds else float('inf'))} tokens/s"

    def explain(self) -> str:
        """Say what limits the plan, and what more memory would bring."""
        return self._words

    @cached_property
    def _words(self) -> str:
        from opweave.solvers.language.questions import next_bytes

        more: dict[str, float | None] = {}
        if self.result.solution is not None:
            limit, constraints = min(self.question.limit, MORE_SECONDS), self.question.constraints
            swept = next_bytes(*self.asked, constraints=constraints, time_limit=limit)
            more = {str(row.values[axis]): row.objective for row in swept.rows for axis in row.values}
            more.pop("none", None)
        return plan_in_words(*self.asked, self.problem, self.result, with_more=more)

    def sections(self) -> list[Section]:
        """What every device holds, and the simple splits beside the plan."""
        from opweave.solvers.language.baselines import other_splits

        best = self.result.objective
        columns: Columns = {
            "split": lambda split: split.name,
            "seconds": lambda split: readable(split.seconds, "seconds"),
            "times the plan": lambda split: f"{split.seconds / best:.2f}" if split.seconds and best else "-",
            "why not": lambda split: split.reason or "",
        }
        if self.result.solution is None:
            return []
        splits = section_of("Other splits", other_splits(self.problem), columns)
        held = self.solution.model_copy(update={"device": exchanged(self.question.model, self.solution.device)})
        return [holdings_section(holdings(*self.asked, self.problem, held)), splits]

    def exports(self) -> Mapping[str, object]:
        """Add the plan for every runtime."""
        from opweave.adapters.runtimes import language_settings

        asked, file = self.question, str(self.question.file)
        file = file if file.lower().endswith(".gguf") else "model.gguf"
        host = asked.rig.host
        far = {name: found for name, found in asked.rig.machines.items() if name != HERE and host not in found}
        found = language_settings(asked.model, self.solution, asked.work, host=host, machines=far, file=file)
        return {**super().exports(), "runtimes.json": found}

    def figure(self) -> Figure:
        """Draw what every device holds and does."""
        found = holdings(*self.asked, self.problem, self.solution)
        return language_figure(found, headline=self.headline(), subtitle=self.subtitle())


def _shown(view: LanguageView, *, machines: bool) -> list[RenderableType]:
    """The view, the sets of machines if they are asked for, and the command lines of runtimes."""
    from opweave.solvers.language.questions import which_machines

    asked, found = view.question, shown(view)
    if view.result.solution is None:
        return found
    if machines:
        found.append(str(which_machines(*view.asked, constraints=asked.constraints, time_limit=asked.limit)))
    settings: Any = view.exports()["runtimes.json"]
    alone = asked.file.suffix.lower() == ".gguf" or any("apple" in each.name for each in asked.rig.cluster.devices)
    for runtime in ("llama.cpp", *(() if alone else ("vLLM",))):
        line = settings[runtime]
        text = f"{runtime} cannot carry out this plan: {line['not possible']}" if isinstance(line, dict) else line
        found += [Text(plain(each)) for each in text.splitlines()]  # lines that can be copied
    return found
