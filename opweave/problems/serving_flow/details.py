"""What the referee of serving measures: tokens per second of everything, and what fills up first."""

from __future__ import annotations

from opweave.problems.solution import Details
from opweave.problems.spec import Amount, Many, Name, Spec


class ServingUse(Spec):
    """One device that holds layers.

    Attributes
    ----------
    device
    first, layers
        Number of its first layer, counted from 0, and how many it holds.
    tokens_per_second
        What flows through it.
    most_per_second
        What it can compute with this number of layers.
    memory_bytes
        Parameters of its layers.
    """

    device: Name
    first: int
    layers: int
    tokens_per_second: Amount
    most_per_second: Amount
    memory_bytes: int

    @property
    def share(self) -> float:
        """Share of its speed that is used."""
        return self.tokens_per_second / self.most_per_second if self.most_per_second else 0.0


class ServingLink(Spec):
    """Tokens that one device sends to another; the coordinator has no name."""

    source: Name | None
    target: Name | None
    tokens_per_second: Amount
    most_per_second: Amount | None


class ServingDetails(Details):
    """The flow of tokens.

    Attributes
    ----------
    tokens_per_second
        The largest flow through the devices as they hold the layers.
    devices
        One row for each device that holds layers.
    links
        One row for each link that carries something.
    limits
        Devices and links of a smallest cut: more layers fewer, or faster, on these would help first.
    """

    tokens_per_second: Amount
    devices: Many[ServingUse]
    links: Many[ServingLink]
    limits: Many[Name]
