"""The devices that run a language model, and what runtimes take of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, Self, get_args

from pydantic import model_validator

from opweave.problems.cluster import Cluster, Device
from opweave.problems.constraints import MemoryCap
from opweave.problems.costs import Efficiency
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
                raise ValueError(f"device {name!r} belongs to one machine, not to {owned.count(name)} of them")
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
        """The rig with more bytes on one device."""
        devices = tuple(
            device.model_copy(update={"memory_bytes": device.memory_bytes + more})
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


class Overheads(NamedTuple):
    """What a kind of device reaches with llama.cpp.

    Attributes
    ----------
    traffic
        Share of its bandwidth.
    group_seconds
        Seconds of every group of tensors in addition to its bytes: launches, and the choice of experts.
    token_seconds
        Seconds of a token in addition to its groups, such as sampling.
    devices
        How the names of presets of the kind begin.
    """

    traffic: float
    group_seconds: float
    token_seconds: float
    devices: tuple[str, ...]

    def of(self, device: Device) -> Device:
        """The device with the bandwidth that is reached, and with the seconds of a group."""
        reached = None if device.memory_bandwidth is None else self.traffic * device.memory_bandwidth
        return device.model_copy(update={"memory_bandwidth": reached, "launch_seconds": self.group_seconds})


OVERHEADS = {
    name: Overheads(**{**row, "devices": tuple(row["devices"])}) for name, row in RUNTIMES["overheads"].items()
}
"""By kind: "card", "apple" (unified memory of Apple), "shared" (other unified memory), "host" (processors)."""


def kind_of(preset: str) -> str:
    """The kind of a preset of :data:`~opweave.problems.device_sheets.DEVICES`.

    Examples
    --------
    >>> kind_of("rtx3090"), kind_of("apple-m1-max"), kind_of("ryzen-ai-max-395"), kind_of("ryzen-9-7950x")
    ('card', 'apple', 'shared', 'host')
    """
    return next((kind for kind, found in OVERHEADS.items() if preset.startswith(found.devices)), "card")


class Spread(NamedTuple):
    """How much longer or shorter than predicted tokens took in nine of ten published runs.

    Attributes
    ----------
    least, most
        Ratios of measured to predicted seconds.
    runs
        Number of runs.
    """

    least: float
    most: float
    runs: int


def published_spread(efficiency: Mapping[str, Efficiency]) -> Spread:
    """How far predictions are off the published runs of ``benchmarks/data/speeds.toml``.

    Without efficiencies, data sheets are taken at their word, and machines take longer by the share that cards reach.

    Examples
    --------
    >>> published_spread(typical_efficiency()).least < 1 < published_spread({}).most
    True
    """
    found = Spread(**RUNTIMES["spread"])
    share = 1.0 if efficiency else OVERHEADS["card"].traffic
    return Spread(found.least / share, found.most / share, found.runs)


def typical_efficiency(kind: str = "card") -> dict[str, Efficiency]:
    """The efficiency that each kind of device of :data:`OVERHEADS` reaches, for rigs with data-sheet devices.

    Examples
    --------
    >>> typical_efficiency()["attention"].traffic
    0.83
    """
    found = OVERHEADS[kind]
    reached = Efficiency(traffic=found.traffic, launch_seconds=found.group_seconds)
    last = reached.model_copy(update={"launch_seconds": found.group_seconds + found.token_seconds})
    return dict.fromkeys(get_args(Role), reached) | {"head": last}
