"""The devices that run a language model, and what runtimes take of them."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Literal, NamedTuple, Self, get_args

from pydantic import model_validator

from opweave.problems.cluster import Cluster
from opweave.problems.constraints import MemoryCap
from opweave.problems.costs import Efficiency
from opweave.problems.device_sheets import DEVICES
from opweave.problems.errors import InvalidInputError
from opweave.problems.language.model import RUNTIMES, LanguageModel, Role
from opweave.problems.language.workload import LOGIT_BYTES, Workload
from opweave.problems.spec import BytesByName, FrozenDict, Lists, Name, Spec, Table, preset
from opweave.problems.words import did_you_mean, refuse_unknown


class Rig(Spec):
    """Devices with their links, and how a runtime uses them.

    Attributes
    ----------
    cluster
        The devices and their links.
    host
        The processor with its memory, where runtimes keep the table of tokens; None if the table may be anywhere.
    reserve
        Bytes of a device that the model cannot have: the runtime's context and buffers, and what others use.
    efficiency
        Shares of the devices' speed and bandwidth that each role reaches; roles that are not listed reach all.
    machines
        Devices of every machine, for the question whether a further machine pays.

    Raises
    ------
    InvalidSpecError
        For a device that the cluster does not have, a reserve larger than the memory, or a device of two machines.

    Examples
    --------
    >>> from opweave.problems.cluster import Device
    >>> gpu, cpu = (Device(name=name, memory_bytes=2**30) for name in ("gpu", "cpu"))
    >>> rig = Rig(cluster=Cluster(devices=[gpu, cpu], shared=1e9), host="cpu", reserve={"gpu": 2**20})
    >>> [(cap.device, cap.bytes) for cap in rig.caps]
    [('gpu', 1072693248)]
    """

    schema_version: Literal[1] = 1
    cluster: Cluster
    host: Name | None = None
    reserve: BytesByName = preset(FrozenDict())
    efficiency: Table[Name, Efficiency] = preset(FrozenDict())
    machines: Lists[Name, Name] = preset(FrozenDict())

    @model_validator(mode="after")
    def _check(self) -> Self:
        known = self.cluster.device_index
        owned = [device for devices in self.machines.values() for device in devices]
        named = {"host": [] if self.host is None else [self.host], "reserve": [*self.reserve], "machines": owned}
        for field, names in named.items():
            refuse_unknown(f"{field} names", "device", names, known, "cluster")
        for role in self.efficiency:
            if role not in get_args(Role):
                raise ValueError(f"efficiency names role {role!r}; the roles are {', '.join(get_args(Role))}")
        for name in owned:
            if owned.count(name) > 1:
                raise ValueError(
                    f"device {name!r} belongs to one machine, but machines lists it {owned.count(name)} times"
                )
        for name, size in self.reserve.items():
            memory = self.cluster.devices[known[name]].memory_bytes
            if memory is not None and size > memory:
                raise ValueError(f"the reserve of device {name!r} is {size:,} bytes; its memory has {memory:,}")
        return self

    @property
    def caps(self) -> tuple[MemoryCap, ...]:
        """What the model may have of the devices with a reserve and limited memory."""
        limits = {device.name: device.memory_bytes for device in self.cluster.devices}
        return tuple(
            MemoryCap(device=name, bytes=limit - size)
            for name, size in self.reserve.items()
            if (limit := limits[name]) is not None
        )

    def with_memory(self, name: str, more: int) -> Rig:
        """The rig with more bytes on one device; without a group, since its equals stay as they are."""
        devices = tuple(
            device.model_copy(update={"memory_bytes": device.memory_bytes + more, "group": None})
            if device.name == name and device.memory_bytes is not None
            else device
            for device in self.cluster.devices
        )
        return self.model_copy(update={"cluster": self.cluster.model_copy(update={"devices": devices})})

    def without(self, machines: frozenset[str]) -> Rig:
        """The rig without some machines; the host stays the host if it is still there.

        Raises
        ------
        InvalidInputError
            If no device is left.
        """
        gone = {device for name in machines for device in self.machines[name]}
        kept = [index for index, device in enumerate(self.cluster.devices) if device.name not in gone]
        return Rig(
            cluster=_part(self.cluster, kept),
            host=None if self.host in gone else self.host,
            reserve=FrozenDict({name: size for name, size in self.reserve.items() if name not in gone}),
            efficiency=self.efficiency,
            machines=FrozenDict({name: each for name, each in self.machines.items() if name not in machines}),
        )


def _part(cluster: Cluster, kept: list[int]) -> Cluster:
    """Some devices of a cluster with the links between them, as the whole cluster has them."""
    rate, latency = cluster.effective_bandwidth, cluster.effective_latency
    linked = rate > 0.0
    return Cluster(
        devices=tuple(cluster.devices[index] for index in kept),
        bandwidth=tuple(tuple(float(rate[a, b]) if a != b else 0.0 for b in kept) for a in kept),
        latency=tuple(tuple(float(latency[a, b]) if linked[a, b] else 0.0 for b in kept) for a in kept),
    )


class Reserve(NamedTuple):
    """Bytes that stay free on a device.

    Attributes
    ----------
    bytes
        Whatever the model.
    token_bytes, from_tokens
        More for each token of context beyond these.
    outputs
        Whether the outputs of one batch are added: 4 bytes for each token and word, and the activation.
    source
        Where the numbers stand.
    """

    bytes: int
    token_bytes: float = 0.0
    from_tokens: int = 0
    outputs: bool = False
    source: str = ""


RESERVES = {name: Reserve(**row) for name, row in RUNTIMES["reserves"].items()}
"""Rules by name."""


def reserve_bytes(model: LanguageModel, work: Workload, rule: str = "buffers") -> int:
    """Bytes that a rule leaves free on each device.

    Raises
    ------
    InvalidInputError
        For an unknown rule.

    Examples
    --------
    >>> from opweave.problems.language.model import Cache, Layer, Weights
    >>> roles = ("attention", "embedding", "head")
    >>> attention, table, head = (Weights(role=role, bytes=8, elements=4) for role in roles)
    >>> model = LanguageModel(
    ...     name="llama 8B",
    ...     layers=[Layer(groups=[attention], cache=Cache(key_width=2, value_width=2))],
    ...     embedding=table,
    ...     head=head,
    ...     hidden_bytes=4 * 4096,
    ...     vocabulary=128_256,
    ... )
    >>> reserve_bytes(model, Workload(batch=512)) / 2**20 - 320
    258.5
    """
    found = RESERVES.get(rule)
    if found is None:
        raise InvalidInputError(
            f"no reserve is called {rule!r:.60}; there are: {', '.join(RESERVES)}{did_you_mean(rule, RESERVES)}"
        )
    tokens = max(work.context * work.sequences - found.from_tokens, 0)
    outputs = work.batch * (LOGIT_BYTES * model.vocabulary + model.hidden_bytes) if found.outputs else 0
    return found.bytes + round(found.token_bytes * tokens) + outputs


class PublishedSpeed(NamedTuple):
    """A measured speed of one token after the other.

    Attributes
    ----------
    device
        A key of :data:`~opweave.problems.device_sheets.DEVICES`.
    model
        The model and its type.
    bytes
        Size of the file.
    tokens_per_second
        With a short context.
    source
        Repository and thread.
    bandwidth
        Peak bytes per second of that machine if it has faster memory than the sheet; None for the sheet's.
    """

    device: str
    model: str
    bytes: float
    tokens_per_second: float
    source: str
    bandwidth: float | None = None

    @property
    def share(self) -> float:
        """Share of the peak bandwidth that was reached."""
        peak = self.bandwidth or DEVICES[self.device].memory_bandwidth
        return self.bytes * self.tokens_per_second / peak


PUBLISHED = tuple(PublishedSpeed(**row) for row in RUNTIMES["published"])
"""Speeds that a search of public threads returned, a small sample: three are one model on one board. File sizes that a
thread does not print are those that such files usually have."""


class Spread(NamedTuple):
    """How much longer or shorter than predicted tokens took in published runs.

    Attributes
    ----------
    least, most
        The smallest and the largest ratio of measured to predicted seconds.
    runs
        Number of runs.
    """

    least: float
    most: float
    runs: int


def published_spread(efficiency: Mapping[str, Efficiency]) -> Spread:
    """How far predictions with these efficiencies would have been off for the runs in :data:`PUBLISHED`.

    Predictions from data sheets take the peak bandwidth, times the efficiencies of the feed-forward parts and experts,
    which are most of a token; predictions from measured devices are closer.

    Examples
    --------
    >>> spread = published_spread({})
    >>> round(spread.least, 2), round(spread.most, 2), spread.runs
    (1.17, 1.67, 9)
    >>> round(published_spread(typical_efficiency()).most, 2)
    1.05
    """
    promised = [efficiency.get(role, Efficiency()).traffic for role in ("feed_forward", "experts")]
    shares = [speed.share for speed in PUBLISHED]
    return Spread(min(promised) / max(shares), max(promised) / min(shares), len(shares))


def typical_efficiency() -> dict[str, Efficiency]:
    """The median share of the bandwidth in :data:`PUBLISHED` for every role, for rigs of data-sheet devices.

    Examples
    --------
    >>> round(typical_efficiency()["attention"].traffic, 2)
    0.63
    """
    share = median(speed.share for speed in PUBLISHED)
    return dict.fromkeys(get_args(Role), Efficiency(traffic=share))
