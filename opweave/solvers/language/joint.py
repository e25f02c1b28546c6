"""Types and places together: in which type each group is stored, and where, so that a token is fast and little is lost.

Smaller types are read faster and leave room on fast devices, so that types chosen before places are chosen badly. Here
every option of a layer (:mod:`.chain`) also says in which type its groups are stored, the losses of all options
together are limited by one more row, and the same program over counts finds and proves the best mix with its places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

import numpy as np

from opweave.formulations.order_arcs import ContradictionError
from opweave.problems.constraints import AnyConstraint
from opweave.problems.errors import InvalidInputError
from opweave.problems.language.model import LanguageModel
from opweave.problems.language.posed import fastest_pass
from opweave.problems.language.rig import Rig
from opweave.problems.language.workload import Workload, parts
from opweave.problems.placement.spec import Schedule
from opweave.problems.result import Result
from opweave.problems.spec import Amount, FrozenDict, Name, Seconds, Spec
from opweave.problems.words import did_you_mean
from opweave.solvers.language.mixing import KEPT, Lightest, Mixing, in_types
from opweave.solvers.language.program import MORE_LOSS
from opweave.solvers.run import Run
from opweave.solvers.solve import solve


class LossTable(Spec):
    """What types lose, and how much may be lost, as a file says it.

    Attributes
    ----------
    loss
        Losses by type, for each group ("layers.3.experts") or role ("experts").
    budget
        Most loss of all groups together.
    """

    loss: FrozenDict[Name, FrozenDict[Name, Amount]]
    budget: Amount


class FastestMix(Spec):
    """The fastest mix of types with its places.

    Attributes
    ----------
    types
        The type of every group that may have several; empty if there is no mix.
    model
        The model in these types.
    lost
        What they lose together.
    result
        The fastest plan of that model; None if there is no mix.
    bound
        Seconds that no mix within the budget beats, wherever its groups are.
    reason
        Why there is no mix.
    """

    types: FrozenDict[Name, str]
    model: LanguageModel
    lost: float
    result: Result[Schedule] | None
    bound: Seconds | None
    reason: str | None = None

    @property
    def reached(self) -> float | None:
        """What is minimised: the seconds of the plan; None if there is no mix."""
        return None if self.result is None else self.result.objective

    @property
    def proved(self) -> bool:
        """Whether no mix within the budget is better."""
        known = self.reached
        return known is not None and self.bound is not None and known <= self.bound * (1.0 + CLOSE)


class SmallestMix(FastestMix):
    """The smallest mix of types that has places, with the fastest of these.

    Attributes
    ----------
    bound
        Bytes of weights that every mix within the budget has whose groups fit somewhere and are fast enough.
    """

    @property
    def reached(self) -> float | None:
        """What is minimised: the bytes of all weights; None if there is no mix."""
        return None if self.result is None else float(self.model.parameter_bytes)


CLOSE = 2e-6
"""Relative difference of seconds that counts as none."""


def fastest_mix(
    model: LanguageModel,
    rig: Rig,
    work: Workload,
    loss: Mapping[str, Mapping[str, float]],
    budget: float,
    *,
    constraints: Iterable[AnyConstraint] = (),
    time_limit: float | None = None,
) -> FastestMix:
    """Find types for the groups and places for them so that a pass is fastest and no more than a budget is lost.

    Parameters
    ----------
    model, rig, work
        As for :func:`~opweave.problems.language.posed.fastest_pass`; of groups with a row only the elements count.
    loss
        Losses by type, for each group ("layers.3.experts") or role ("experts"); a group's own row counts first. Groups
        without a row stay as they are, and so does a table that the embedding and the head share.
    budget
        Most loss of all groups together. Losses add up.
    constraints
        More side constraints, such as :func:`~opweave.problems.language.posed.by_layer`.
    time_limit
        Seconds for the search and its proof; None for no limit.

    Raises
    ------
    InvalidInputError
        For an unknown group, role or type, a loss below 0, or rules that relate operators of different layers.

    Examples
    --------
    A card has room for three of eight bits or for all in four bits; the budget allows for one layer in four bits:

    >>> from opweave.adapters.llm.config_read import from_config
    >>> from opweave.problems.cluster import Cluster, Device
    >>> tiny = {"model_type": "llama", "hidden_size": 256, "intermediate_size": 1024, "num_attention_heads": 4}
    >>> model = from_config(tiny | {"num_hidden_layers": 4, "vocab_size": 1000}, "tiny", "q8_0")
    >>> card = Device(name="card", memory_bytes="4 MiB", flops_per_second=1e12, memory_bandwidth=1e11)
    >>> cpu = Device(name="cpu", memory_bytes="1 GiB", flops_per_second=1e12, memory_bandwidth=1e10)
    >>> rig = Rig(cluster=Cluster(devices=[card, cpu], shared=1e10, latency=1e-6), host="cpu")
    >>> found = fastest_mix(model, rig, Workload(context=64), {"feed_forward": {"q8_0": 0.0, "q4_k": 1.0}}, 1.0)
    >>> sorted(found.types.values()), found.lost, found.proved
    (['q4_k', 'q8_0', 'q8_0', 'q8_0'], 1.0, True)
    """
    return _mixed(Mixing, model, rig, work, loss, budget, tuple(constraints), time_limit)


def smallest_mix(
    model: LanguageModel,
    rig: Rig,
    work: Workload,
    loss: Mapping[str, Mapping[str, float]],
    budget: float,
    *,
    seconds: float | None = None,
    constraints: Iterable[AnyConstraint] = (),
    time_limit: float | None = None,
) -> SmallestMix:
    """Find types and places for the groups so that the weights are fewest bytes and no more than a budget is lost.

    Every group fits where it is. So a mix may be larger than that of
    :func:`~opweave.solvers.language.mix.quantised_mix`, which asks for no places.

    Parameters
    ----------
    model, rig, work, loss, budget, constraints, time_limit
        As for :func:`fastest_mix`.
    seconds
        Most seconds of a pass; None for no limit.

    Raises
    ------
    InvalidInputError
        As :func:`fastest_mix`.

    Examples
    --------
    Three layers in four bits are within the budget, but then a token takes too long on the processor:

    >>> from opweave.adapters.llm.config_read import from_config
    >>> from opweave.problems.cluster import Cluster, Device
    >>> tiny = {"model_type": "llama", "hidden_size": 256, "intermediate_size": 1024, "num_attention_heads": 4}
    >>> model = from_config(tiny | {"num_hidden_layers": 4, "vocab_size": 1000}, "tiny", "q8_0")
    >>> cpu = Device(name="cpu", memory_bytes="1 GiB", flops_per_second=1e12, memory_bandwidth=1e10)
    >>> rig, table = Rig(cluster=Cluster(devices=[cpu])), {"feed_forward": {"q8_0": 0.0, "q4_k": 1.0}}
    >>> found = smallest_mix(model, rig, Workload(context=64), table, 3.0)
    >>> sorted(found.types.values()), found.proved
    (['q4_k', 'q4_k', 'q4_k', 'q8_0'], True)
    """
    search = partial(Lightest, seconds=seconds)
    found = _mixed(search, model, rig, work, loss, budget, tuple(constraints), time_limit)
    return SmallestMix(**{name: getattr(found, name) for name in FastestMix.model_fields})


def _mixed(
    search: Callable[..., Mixing],
    model: LanguageModel,
    rig: Rig,
    work: Workload,
    loss: Mapping[str, Mapping[str, float]],
    budget: float,
    more: tuple[AnyConstraint, ...],
    time_limit: float | None,
) -> FastestMix:
    """What a search finds, or why there is no mix."""
    found = parts(model, work)
    known = dict.fromkeys([*(part.role for part in found), *(part.id for part in found)])
    for name in loss:
        if name not in known:
            raise InvalidInputError(
                f"the losses name {name!r}, which is no group and no role of {model.name}{did_you_mean(name, known)}"
            )
    rows = {part.id: _row(loss, part.id, part.role, tied=bool(model.tied_bytes)) for part in found}
    least = sum(min(row.values()) for row in rows.values())
    if least > budget * (1.0 + MORE_LOSS):
        words = f"the groups lose at least {least:g}, more than the budget of {budget:g}"
        return FastestMix(types=FrozenDict({}), model=model, lost=0.0, result=None, bound=None, reason=words)
    run = Run(time_limit=time_limit)
    try:
        mixing = search(model, rig, work, rows, budget, more, run)
    except ContradictionError as error:
        return FastestMix(types=FrozenDict({}), model=model, lost=0.0, result=None, bound=None, reason=str(error))
    outcome = mixing.solve()
    if mixing.types is None:
        reason = outcome.reason if outcome.infeasible else "no mix was found in time"
        return FastestMix(types=FrozenDict({}), model=model, lost=0.0, result=None, bound=mixing.bound(), reason=reason)
    typed = in_types(model, mixing.types)
    result = solve(fastest_pass(typed, rig, work, constraints=more), solver="layers", time_limit=time_limit)
    chosen = {name: kind for name, kind in mixing.types.items() if kind != KEPT}
    lost = sum(rows[name][kind] for name, kind in mixing.types.items())
    return FastestMix(types=FrozenDict(chosen), model=typed, lost=lost, result=result, bound=mixing.bound())


def _row(loss: Mapping[str, Mapping[str, float]], name: str, role: str, *, tied: bool) -> dict[str, float]:
    """The losses of a group by type."""
    row = dict(loss.get(name) or loss.get(role) or {})
    if not row or (tied and role in ("embedding", "head")):
        return {KEPT: 0.0}
    for kind, lost in row.items():
        if not 0.0 <= lost < np.inf:
            raise InvalidInputError(f"{name} in {kind} loses {lost}; a loss is a number from 0")
    return row
