"""One operator at a time, relaxed to shares: the basis of every bound of slicing.

Let u be the shares of an operator (their sum is 1) and y_e those in which the producer of flow e holds its tensor of
``size`` bytes. Whichever dimensions operator and producer are cut along, every device k with a part receives at least
``per_share u_k + extra_k - size y_ek`` bytes of e (0 if that is negative). Proof:

* The need. A part of the rows needs, beyond ``stride`` input rows for each of its own, the halo above it unless it is
  the first and below it unless it is the last: ``extra`` is the least over all positions of the cut, computed from the
  need itself, so that it is valid for every stride and padding. A part of the channels needs all of the input, which is
  no less; if each channel reads only its own, it needs its share without a halo, and each constant is then the smaller
  of the two.
* The missing bytes. Along the same dimension, need minus overlap is at least need minus held bytes. Along different
  dimensions it is f - f y for a need of the fraction f, and f <= 1.

So an operator takes at least the largest over its devices of ``intercept + slope u_k + sum of those bytes / rate``.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from opweave.formulations.slicing.instance import CHANNELS, ROWS, SlicingInstance
from opweave.problems.arrays import NO_LIMIT, FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class BlockConstants:
    """Constants of all operators v, devices k and flows e with a producer.

    Attributes
    ----------
    first_flow
        Flows of operator v: first_flow[v] to first_flow[v + 1].
    size, per_share
        For every flow: bytes of the tensor, bytes needed per share.
    above, below, end
        Bytes of the halo above a part that is not the first and below one that is not the last; and the bytes that the
        last part needs beyond its share (negative where the input's last rows are not read).
    intercept, slope
        Seconds; inf where the device may not take part. Shape (operators, devices).
    least, most
        Smallest and largest share of a device that takes part. Shapes (operators,), (operators, devices).
    rate
        Bytes per second into every device (1 for a single device, which receives nothing).
    """

    first_flow: IntArray
    size: FloatArray
    per_share: FloatArray
    above: FloatArray
    below: FloatArray
    end: FloatArray
    intercept: FloatArray
    slope: FloatArray
    least: FloatArray
    most: FloatArray
    rate: FloatArray

    @property
    def operators(self) -> int:
        """Number of operators."""
        return len(self.least)

    @property
    def devices(self) -> int:
        """Number of devices."""
        return len(self.rate)


def subsets(devices: int) -> list[tuple[int, ...]]:
    """All non-empty sets of devices, small ones first."""
    return [chosen for size in range(1, devices + 1) for chosen in combinations(range(devices), size)]


def blocks_of(instance: SlicingInstance) -> BlockConstants:
    """Compute the constants."""
    kept = np.flatnonzero(instance.producer >= 0)
    reader = np.repeat(np.arange(instance.operators), np.diff(instance.flow_start))[kept]
    first = np.zeros(instance.operators + 1, dtype=np.int64)
    np.cumsum(np.bincount(reader, minlength=instance.operators), out=first[1:])
    constants = np.asarray(
        [_flow(instance, int(e), int(v)) for e, v in zip(kept, reader, strict=True)], dtype=np.float64
    ).reshape(-1, 5)
    longest = instance.length.max(axis=1)
    return BlockConstants(
        first_flow=first,
        size=constants[:, 0],
        per_share=constants[:, 1],
        above=constants[:, 2],
        below=constants[:, 3],
        end=constants[:, 4],
        intercept=instance.intercept,
        slope=np.maximum(instance.slope, 0.0),
        least=1.0 / longest,
        most=_most(instance),
        rate=np.where(instance.rate > 0, instance.rate, 1.0),
    )


Constants = tuple[float, float, float, float, float]
"""Size, bytes per share, and the halo above, below and at the end, as in :class:`BlockConstants`."""


def _flow(instance: SlicingInstance, e: int, v: int) -> Constants:
    """The smaller need of the dimensions that the operator can be cut along."""
    t = instance.tensor[e]
    size = float(instance.cell[t] * instance.channels[t] * instance.rows[t])
    everything = (size, 0.0, 0.0, size, size)  # each part needs all of it, whether first, last or between
    windowed = not instance.whole[v] and instance.length[v, ROWS] > 0 and instance.stride[e] > 0
    by_rows = _windows(instance, e, v) if windowed else everything
    channels = int(instance.length[v, CHANNELS])
    if instance.whole[v] or channels == 0 or instance.wide[e] == channels:
        return by_rows
    by_channels = (size, _joined_share(instance, e, v) if _joins(instance, e, v) else size, 0.0, 0.0, 0.0)
    if not windowed:
        return by_channels
    return (size, *(min(pair) for pair in zip(by_rows[1:], by_channels[1:], strict=True)))  # type: ignore[return-value]


def _joins(instance: SlicingInstance, e: int, v: int) -> bool:
    """Whether a flow is one of several that an operator puts side by side along the channels."""
    channels = instance.channels[instance.tensor[e]]
    return bool(instance.wide[e] == 1 and instance.deep[e] == 1 and channels < instance.length[v, CHANNELS])


def _joined_share(instance: SlicingInstance, e: int, v: int) -> float:
    """Bytes that a flow adds to the need per share: a part may be of the channels with the fewest bytes.

    Channels of graph inputs that come from outside have none, nor have those of inputs of one channel, which every part
    needs anyway.
    """
    bytes_of = []
    channels = 0
    for f in range(int(instance.flow_start[v]), int(instance.flow_start[v + 1])):
        if _joins(instance, f, v):
            t = instance.tensor[f]
            bytes_of.append(float(instance.cell[t] * instance.rows[t]) if instance.producer[f] >= 0 else 0.0)
            channels += int(instance.channels[t])
    if channels < instance.length[v, CHANNELS]:
        return 0.0
    return min(bytes_of) * float(instance.channels[instance.tensor[e]])


def _windows(instance: SlicingInstance, e: int, v: int) -> Constants:
    """Constants of a flow, by enumeration of all cuts along the rows."""
    t = instance.tensor[e]
    length = int(instance.length[v, ROWS])
    row = float(instance.cell[t] * instance.channels[t])
    rows = int(instance.rows[t])
    stride = int(instance.stride[e])
    padding = int(instance.padding[e])
    reach = int(instance.reach[e])
    cut = np.arange(1, length, dtype=np.int64)
    above = cut * stride - np.maximum(0, cut * stride - padding)
    below = np.minimum(rows, (cut - 1) * stride - padding + reach) - cut * stride
    last = min(rows, (length - 1) * stride - padding + reach) - stride * length
    halo = [float(each.min()) if len(cut) else 0.0 for each in (above, below)]
    return row * rows, row * stride * length, row * halo[0], row * halo[1], row * last


def _most(instance: SlicingInstance) -> FloatArray:
    """Largest share by memory: a part holds its output, and its weights or at least its share of them."""
    sizes = (instance.cell * instance.channels * instance.rows).astype(np.float64)
    maker = np.repeat(np.arange(instance.operators), np.diff(instance.made_start))
    made = np.zeros(instance.operators)
    np.add.at(made, maker, sizes[instance.made])
    shared = (instance.length[:, CHANNELS] > 0) | instance.whole
    weight = instance.weight.astype(np.float64)
    fixed = np.where(shared, 0.0, weight)
    growing = made + np.where(shared, weight, 0.0)
    capacity = np.where(instance.capacity == NO_LIMIT, np.inf, instance.capacity.astype(np.float64))
    room = capacity[None, :] - fixed[:, None]
    most = np.divide(room, growing[:, None], out=np.full(room.shape, np.inf), where=growing[:, None] > 0)
    return np.where(np.isfinite(instance.intercept), np.clip(most, 0.0, 1.0), 0.0)
