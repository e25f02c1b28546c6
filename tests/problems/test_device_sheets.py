"""Data sheets: no digit slipped, and every row names its source."""

from __future__ import annotations

import pytest

import opweave as ow
from opweave.problems.device_sheets import COMPARED, DEVICES

FLOPS_FOR_A_BYTE = {"processor": (2, 30), "small": (0.3, 2), "gpu": (8, 110)}
PROCESSORS = ("core-", "ryzen-", "snapdragon-", "raspberry-")


def _class_of(kind: str) -> str:
    if kind.startswith(PROCESSORS):
        return "processor"
    return "small" if kind in ("stm32h743", "nrf52840") else "gpu"


@pytest.mark.parametrize("kind", DEVICES)
def test_every_sheet_makes_a_device_or_says_what_is_missing(kind: str) -> None:
    sheet = DEVICES[kind]
    assert len(sheet.source) > 10
    assert sheet.title.strip() == sheet.title
    if sheet.fp32 is None:
        advice = "take 'int8'" if sheet.int8 else "make a Device with the speed that you measured"
        with pytest.raises(ow.InvalidInputError, match=advice):
            ow.clusters.device(kind, "mine", memory_bytes="8 GiB")
        return
    if sheet.memory_bytes is None:
        with pytest.raises(ow.InvalidInputError, match="comes with several sizes of memory"):
            ow.clusters.device(kind, "mine")
    device = ow.clusters.device(kind, "mine", memory_bytes="8 GiB")
    assert (device.name, device.group, device.memory_bytes) == ("mine", kind, 8 * 2**30)
    assert sheet.fp16 is None or sheet.fp32 <= sheet.fp16 < 20 * sheet.fp32
    least, most = FLOPS_FOR_A_BYTE[_class_of(kind)]
    assert least < sheet.fp32 / sheet.memory_bandwidth < most


def test_integers_and_unknown_names() -> None:
    assert ow.clusters.device("coral-usb", "tpu", precision="int8").flops_per_second == 4e12
    assert ow.clusters.device("t4", "gpu", precision="int8").flops_per_second == 130e12
    with pytest.raises(ow.InvalidInputError, match="did you mean 'rtx4090'"):
        ow.clusters.device("rtx409O", "a")


def test_rows_that_were_compared_exist() -> None:
    assert COMPARED.keys() <= DEVICES.keys()
    assert len(COMPARED) >= 15
