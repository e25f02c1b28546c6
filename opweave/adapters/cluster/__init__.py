"""Clusters of real machines: measure them, carry plans out on them, and compare predicted with measured times."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opweave.adapters.lazily import lazily

if TYPE_CHECKING:
    from opweave.adapters.cluster.compare import ClusterRun
    from opweave.adapters.cluster.connect import connected
    from opweave.adapters.cluster.probing import Probe, probe
    from opweave.adapters.cluster.running import run

__all__ = ["ClusterRun", "Probe", "connected", "probe", "run"]

__getattr__, __dir__ = lazily(
    __name__,
    {"ClusterRun": "compare", "Probe": "probing", "connected": "connect", "probe": "probing", "run": "running"},
)
