"""Clusters of real machines: measure them, carry plans out on them, and compare predicted with measured times."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opweave.adapters.lazily import lazily

if TYPE_CHECKING:
    from opweave.adapters.cluster.compare import ClusterRun as ClusterRun
    from opweave.adapters.cluster.connect import connected as connected
    from opweave.adapters.cluster.probing import Probe as Probe, probe as probe
    from opweave.adapters.cluster.running import run as run

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
