"""What the referee of placement measures."""

from __future__ import annotations

from opweave.problems.device_details import DeviceDetails


class PlacementDetails(DeviceDetails):
    """How a schedule uses the devices; with ``"delay"``, one transfer is counted for each tensor and device."""
