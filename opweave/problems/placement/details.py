"""What the referee of placement measures."""

from __future__ import annotations

from opweave.problems.device_details import DeviceDetails


class PlacementDetails(DeviceDetails):
    """What a schedule does to the devices; for ``"delay"`` one transfer is counted for each tensor and device."""
