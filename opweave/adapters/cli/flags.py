"""The options that describe a problem: every flag once, with the problems that accept it.

``opweave plan`` takes all of them, the command of a problem only its own. A further problem adds its word to the flags
that it shares and new rows for its own flags; no command changes.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from opweave.adapters import clusters
from opweave.adapters.cli.settings import with_options
from opweave.adapters.files import read_json
from opweave.adapters.load import load_costs
from opweave.adapters.report.view import AnyView
from opweave.problems.cluster import Cluster
from opweave.problems.costs import Costs
from opweave.problems.errors import InvalidInputError
from opweave.problems.units import parse_bytes

ROOFLINE = "roofline"


def _as_given(value: object) -> object:
    return value


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag of planning commands, and the field that it sets.

    Attributes
    ----------
    name
        The flag as it is typed.
    field
        The problem's field that the flag sets.
    uses
        The values that it accepts, by the word of every problem that has it.
    takes
        The type into which the command line converts the text; a list allows several occurrences.
    read
        Converts that to the field's value; None stands for the field's default.
    required
        Whether the problems that have the flag require it.
    """

    name: str
    field: str
    uses: Mapping[str, str]
    takes: type[str] | type[int] | type[float] | type[bool] | type[list[str]] = str
    read: Callable[..., object] = _as_given
    required: bool = False

    @property
    def help(self) -> str:
        """Problems and the values that each accepts; problems with the same values are listed together."""
        words: dict[str, list[str]] = {}
        for word, use in self.uses.items():
            words.setdefault(use, []).append(word)
        return "; ".join(f"{', '.join(group)}: {use}" for use, group in words.items()) + "."

    def parameter(self, word: str | None) -> inspect.Parameter:
        """The flag as a typer parameter of one problem's command; without a word, one that the help leaves out."""
        told, hidden = (self.help, True) if word is None else (self._told(word), False)
        option = typer.Option(self.name, help=told, show_default=False, rich_help_panel="The problem", hidden=hidden)
        return inspect.Parameter(
            _variable(self.name),
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[self.takes | None, option],
        )

    def _told(self, word: str) -> str:
        use = self.uses[word]
        return f"{use}; required." if self.required else f"{use}."


def pins(texts: Sequence[str]) -> tuple[dict[str, str], ...]:
    """Read pins written as ``OP=DEVICE``; an operator's name may contain ``=``.

    Raises
    ------
    InvalidInputError
        For a text of another form, or an operator that is pinned twice.

    Examples
    --------
    >>> pins(["conv=a"])
    ({'kind': 'pin', 'op': 'conv', 'device': 'a'},)
    """
    found: dict[str, str] = {}
    for text in texts:
        op, equals, device = text.rpartition("=")
        if not (equals and op and device):
            raise InvalidInputError(f"--pin {text!r:.80}: write it as OPERATOR=DEVICE")
        if op in found:
            raise InvalidInputError(f"--pin {text!r:.80}: {op!r} is already pinned to {found[op]!r}; keep one of them")
        found[op] = device
    return tuple({"kind": "pin", "op": op, "device": device} for op, device in found.items())


def _cluster(text: str) -> Cluster:
    machines = clusters.load(text)
    clusters.check_links(machines)
    return machines


def _costs(text: str) -> Costs | None:
    return None if text == ROOFLINE else load_costs(text)


def _geometry(path: str) -> dict[str, object]:
    data = read_json(path)
    if not isinstance(data, dict):
        raise InvalidInputError(
            f'{path}: a geometry file must hold an object, for example {{"conv1": {{"kernel": 3, "padding": 1}}}}'
        )
    return data


def _listed(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _same(words: str, use: str) -> dict[str, str]:
    return dict.fromkeys(words.split(), use)


ON_DEVICES = "placement batched pipeline slicing"

FLAGS = (
    Flag("--objective", "objective", {"ordering": "peak or total", "pipeline": "bottleneck, transfers or latency"}),
    Flag("--in-place", "in_place", _same("ordering layout", "none, first or any")),
    Flag(
        "--inputs",
        "inputs",
        _same("ordering layout", "freed, kept or excluded") | {"pipeline": "first or everywhere"},
    ),
    Flag("--outputs", "outputs", _same("ordering layout", "kept or excluded")),
    Flag("--limit", "limit_bytes", {"ordering": "most bytes, for example 6MiB"}, read=parse_bytes),
    Flag("--capacity", "limit_bytes", {"layout": "bytes of the arena, for example 1MiB"}, read=parse_bytes),
    Flag("--alignment", "alignment", {"layout": "offsets are multiples of this many bytes"}, int),
    Flag("--cluster", "cluster", _same(ON_DEVICES, "a file or a preset's name"), read=_cluster, required=True),
    Flag("--costs", "costs", _same(ON_DEVICES, "a file, or roofline (the default)"), read=_costs),
    Flag("--batch", "batch", {"batched": "number of inputs; 1 by default"}, int),
    Flag(
        "--transfers",
        "transfers",
        {
            "placement": "one_port_tensor, one_port_edge, delay or blocking",
            "batched": "delay or delay_per_input",
            "slicing": "refined or paper",
        },
    ),
    Flag(
        "--memory-model",
        "memory",
        _same("placement pipeline", "additive or parameters") | {"batched": "buffers, additive or parameters"},
    ),
    Flag("--cuts", "cuts", {"pipeline": "prefix or dominators"}),
    Flag("--load", "load", {"pipeline": "overlap or sum"}),
    Flag("--host", "host", {"placement": "for blocking transfers: the device with the memory that all pass through"}),
    Flag("--max-calls", "max_calls", {"placement": "for blocking transfers: most calls of an accelerator"}, int),
    Flag("--host-cores", "host_cores", {"placement": "for blocking transfers: operators of the host at a time"}, int),
    Flag("--max-replicas", "max_replicas", {"pipeline": "most devices that take turns in a stage"}, int),
    Flag("--max-tensors", "max_tensors", {"pipeline": "most tensors across a prefix cut"}, int),
    Flag("--compression", "compression", {"pipeline": "factor by which transfers shrink"}, float),
    Flag("--no-compute", "include_compute", {"pipeline": "computing takes no time"}, bool, operator.not_),
    Flag("--channel", "channel", _same("pipeline slicing", "dedicated or shared")),
    Flag("--min-stages", "min_stages", {"pipeline": "fewest stages"}, int),
    Flag("--max-stages", "max_stages", {"pipeline": "most stages"}, int),
    Flag(
        "--device-order", "device_order", {"pipeline": "devices in the order of use, for example A,B,C"}, read=_listed
    ),
    Flag(
        "--forbid-device",
        "forbidden_devices",
        {"pipeline": "a device that must not be used; may be repeated"},
        list[str],
    ),
    Flag("--dimension", "dimension", {"slicing": "free or rule"}),
    Flag("--weights", "weights", {"slicing": "resident or streamed"}),
    Flag("--layout", "layout", {"slicing": "channels_first or channels_last"}),
    Flag("--input-device", "input_device", {"slicing": "device that has the inputs"}),
    Flag("--output-device", "output_device", {"slicing": "device that gathers the outputs"}),
    Flag("--geometry", "geometry", {"slicing": "a file, instead of the geometry in the model file"}, read=_geometry),
    Flag("--pin", "constraints", _same("placement batched pipeline", "OP=DEVICE; may be repeated"), list[str], pins),
)
"""All flags of problems, in the order in which the help lists them."""


def with_flags(command: Callable[..., int], word: str | None = None) -> Callable[..., int]:
    """Give a command :data:`FLAGS`; it receives the given ones as its argument ``flags``.

    Parameters
    ----------
    command
        The command.
    word
        The problem whose flags it takes; None for those of all problems, which the help then leaves out.
    """
    taken = [flag for flag in FLAGS if word is None or word in flag.uses]

    def flags(given: dict[str, object]) -> dict[str, object]:
        typed = {flag.name: given.pop(_variable(flag.name)) for flag in taken}
        return {name: value for name, value in typed.items() if value is not None}

    return with_options(command, "flags", [flag.parameter(word) for flag in taken], flags)


def fields_of(view: type[AnyView], given: Mapping[str, object], stated: Collection[str] = ()) -> dict[str, object]:
    """Make the fields of a problem from its flags.

    Parameters
    ----------
    view
        The problem's view.
    given
        The values from the command line, by flag name.
    stated
        Fields that the model's file states itself.

    Raises
    ------
    InvalidInputError, LimitExceededError
        For a flag that the problem does not have or that the file makes needless, a required flag that is missing, or
        a value that cannot be read.

    Examples
    --------
    >>> from opweave.adapters.report.views import view_for
    >>> fields_of(view_for("ordering"), {"--in-place": "any", "--limit": "1KiB"})
    {'in_place': 'any', 'limit_bytes': 1024}
    """
    for flag in FLAGS:
        if flag.name in given and view.word not in flag.uses:
            raise InvalidInputError(_useless(flag, view))
        if flag.name in given and flag.field in stated:
            raise InvalidInputError(f"the file states {flag.field} itself; leave out {flag.name}")
    for flag in FLAGS:
        if flag.required and view.word in flag.uses and flag.name not in given and flag.field not in stated:
            raise InvalidInputError(f"problem {view.word} needs {flag.name}: {flag.uses[view.word]}")
    values = {flag.field: flag.read(given[flag.name]) for flag in FLAGS if flag.name in given}
    return {field: value for field, value in values.items() if value is not None}


def _useless(flag: Flag, view: type[AnyView]) -> str:
    known = flag.field in view.problem_type.model_fields
    why = "" if known else f": it has no field {flag.field}"
    return f"problem {view.word} does not accept {flag.name}{why}; leave it out, it is for {', '.join(flag.uses)}"


def _variable(name: str) -> str:
    return name.removeprefix("--").replace("-", "_") + "_flag"
