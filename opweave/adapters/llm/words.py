"""One paragraph on a plan of a language model: what limits it, what more memory would bring, what does not fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from opweave.adapters.llm.held import SENDING, SHORT, Holding, holdings
from opweave.problems.costs import Efficiency
from opweave.problems.language.model import LanguageModel
from opweave.problems.language.rig import Rig
from opweave.problems.language.workload import Workload, parts
from opweave.problems.placement.spec import Placement, Schedule
from opweave.problems.result import Result
from opweave.problems.units import precise_seconds, readable_bytes, readable_rate, readable_share
from opweave.problems.words import joined

WORDS = {
    "embedding": "the table of tokens",
    "router": "routers",
    SHORT["feed_forward"]: "feed-forward parts",
    "head": "the head",
}
"""What holdings are called in a sentence, if not as in a table."""

LARGEST = 3
"""Most roles of a device that are named."""

WORTH_NAMING = 0.1
"""Smallest share of a device's seconds for which a role is named."""


def plan_in_words(
    model: LanguageModel,
    rig: Rig,
    work: Workload,
    problem: Placement,
    result: Result[Schedule],
    *,
    with_more: Mapping[str, float | None] | None = None,
) -> str:
    """Say how fast a plan is, what limits it and what would help; without a plan, how many bytes are missing.

    Parameters
    ----------
    model, rig, work
        The model, the devices, and what is asked of them.
    problem, result
        The question as a placement, and what a solver found.
    with_more
        Seconds of the best plan if a device had one gibibyte more, by device; None if there is no plan.

    Examples
    --------
    >>> from opweave.adapters.llm.config import from_config
    >>> from opweave.problems.cluster import Cluster, Device
    >>> from opweave.problems.language.posed import fastest_pass
    >>> from opweave.solvers.solve import solve
    >>> tiny = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4}
    >>> tiny |= {"num_hidden_layers": 2, "vocab_size": 1000}
    >>> model, work = from_config(tiny, "tiny"), Workload(context=128)
    >>> cpu = Device(name="cpu", memory_bytes="8 GiB", flops_per_second="10 GFLOP/s", memory_bandwidth="10 GB/s")
    >>> rig = Rig(cluster=Cluster(devices=[cpu]), host="cpu")
    >>> problem = fastest_pass(model, rig, work)
    >>> print(plan_in_words(model, rig, work, problem, solve(problem)))  # doctest: +ELLIPSIS
    A token takes 36.34 µs (27,516 tokens a second); no plan is faster. The memory bandwidth of 'cpu' limits it: ...
    """
    if result.solution is None:
        return _without_plan(model, rig, work, result)
    found = holdings(model, rig, work, problem, result.solution)
    sentences = [_speed(work, result), _limit(model, rig, work, result.solution, found), *_full(found)]
    return " ".join([*sentences, *_help(result, with_more or {})])


def _speed(work: Workload, result: Result[Schedule]) -> str:
    seconds = result.objective or 0.0
    if work.phase == "prefill":
        what = f"{work.tokens:,} tokens of a prompt take"
    else:
        what = "A token takes" if work.sequences == 1 else f"{work.sequences:,} tokens, one for each sequence, take"
    rate = f" ({readable_rate(work.tokens / seconds)} tokens a second)" if seconds else ""
    if result.bound is None:
        return f"{what} {precise_seconds(seconds)}{rate}."
    proved = "no plan is faster" if result.gap == 0.0 else f"no plan is faster than {precise_seconds(result.bound)}"
    return f"{what} {precise_seconds(seconds)}{rate}; {proved}."


def _limit(model: LanguageModel, rig: Rig, work: Workload, plan: Schedule, found: Sequence[Holding]) -> str:
    """What takes longest: a device with its memory or its arithmetic, or the links."""
    computing = {each.device: {**each.seconds, SENDING: 0.0} for each in found}
    busy = {name: sum(seconds.values()) for name, seconds in computing.items()}
    sending = sum(each.seconds.get(SENDING, 0.0) for each in found)
    slowest = max(busy, key=lambda name: busy[name])
    if sending > busy[slowest]:
        return f"The links limit it: {precise_seconds(sending)} of it are transfers."
    roles = computing[slowest]
    most = sorted(roles, key=lambda role: -roles[role])[:LARGEST]
    others = [role for role in most[1:] if roles[role] > WORTH_NAMING * busy[slowest]]
    named = joined(WORDS.get(role, role) for role in [*most[:1], *others])
    waits = _waits_for_memory(model, rig, work, plan, slowest)
    verb, limit = ("reads", "memory bandwidth") if waits else ("computes", "arithmetic")
    transfers = f"; transfers take {precise_seconds(sending)}" if sending else ""
    span = precise_seconds(busy[slowest])
    return f"The {limit} of {slowest!r} limits it: it {verb} for {span}, mostly {named}{transfers}."


def _waits_for_memory(model: LanguageModel, rig: Rig, work: Workload, plan: Schedule, name: str) -> bool:
    """Whether a device spends more time on the bytes of its parts than on their operations."""
    device, reading, computing = rig.cluster.devices[rig.cluster.device_index[name]], 0.0, 0.0
    for part in parts(model, work):
        if plan.device[part.id] == name:
            reached = rig.efficiency.get(part.role, Efficiency())
            reading += part.read_bytes / ((device.memory_bandwidth or 1.0) * reached.traffic)
            computing += part.flops / ((device.flops_per_second or 1.0) * reached.arithmetic)
    return reading >= computing


def _full(found: Sequence[Holding]) -> list[str]:
    """The devices with limited memory that hold something, the fullest first; what is reserved is not free."""
    rows = [
        (1.0 - each.free / each.memory, each) for each in found if each.memory and each.free is not None and each.used
    ]
    rows.sort(key=lambda row: (-row[0], row[1].device))
    said = [
        f"{each.device!r} is {readable_share(share)} full ({readable_bytes(each.free or 0)} free)"
        for share, each in rows
    ]
    return [f"{joined(said[:LARGEST])}."] if said else []


def _help(result: Result[Schedule], with_more: Mapping[str, float | None]) -> list[str]:
    now = result.objective or 0.0
    best = {name: seconds for name, seconds in with_more.items() if seconds is not None}
    if not best or not now:
        return []
    name = min(best, key=lambda each: best[each])
    if best[name] >= now:
        return ["One GiB more on any one device would bring nothing."]
    saved = readable_share((now - best[name]) / now)
    return [f"One GiB more on {name!r} would bring {saved}: {precise_seconds(best[name])}."]


def _without_plan(model: LanguageModel, rig: Rig, work: Workload, result: Result[Schedule]) -> str:
    weights = model.parameter_bytes - model.idle_bytes
    caches = sum(work.held_bytes(layer.cache) for layer in model.layers)
    sizes = [device.memory_bytes for device in rig.cluster.devices]
    taken = sum(rig.reserve.values())
    if any(size is None for size in sizes):
        return f"There is no plan: {result.reason or 'none was found in time'}."
    room = max(sum(size or 0 for size in sizes) - taken, 0)
    if weights + caches <= room:
        why = result.reason or "none was found in time"
        return f"There is no plan: {why.rstrip('.')}. All memory together would be large enough."
    short = weights + caches - room
    text = (
        f"The model does not fit: its weights need {readable_bytes(weights)} and its caches {readable_bytes(caches)}, "
        f"but the devices have {readable_bytes(room)}: {readable_bytes(short)} short."
    )
    if weights > room:
        bits = 8 * room / max(model.elements, 1)
        return f"{text} The weights alone are too large; they would need at most {bits:.1f} bits for a number."
    return f"{text} A shorter context may fit: '--context max' or longest_context finds the longest one."
