"""Data sheets: no digit slipped, and every row names its source."""

from __future__ import annotations

import pytest

import opweave as ow
from opweave.problems.device_sheets import CLUSTERS, DEVICES, preset

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
    if "fp32" not in sheet.speeds:
        advice = "take 'int8'" if "int8" in sheet.speeds else "make a Device with the speed that you measured"
        with pytest.raises(ow.InvalidInputError, match=advice):
            ow.clusters.device(kind, "mine", memory_bytes="8 GiB")
        return
    if sheet.memory_bytes is None:
        with pytest.raises(ow.InvalidInputError, match="comes with several sizes of memory"):
            ow.clusters.device(kind, "mine")
    device = ow.clusters.device(kind, "mine", memory_bytes="8 GiB")
    assert (device.name, device.group, device.memory_bytes) == ("mine", kind, 8 * 2**30)
    single = sheet.speeds["fp32"]
    assert single <= sheet.speeds.get("fp16", single) < 20 * single
    least, most = FLOPS_FOR_A_BYTE[_class_of(kind)]
    assert least < single / sheet.memory_bandwidth < most


def test_integers_and_unknown_names() -> None:
    assert ow.clusters.device("coral-usb", "tpu", precision="int8").flops_per_second == 4e12
    assert ow.clusters.device("t4", "gpu", precision="int8").flops_per_second == 130e12


def test_table_iii_in_bytes_per_second() -> None:
    inter, intra = preset("moirai-inter"), preset("moirai-intra")
    assert inter.direct_bandwidth[0].tolist() == pytest.approx([0, 44.26e9 / 8, 32.92e9 / 8, 44.28e9 / 8])
    assert inter.direct_bandwidth[2, 0] == pytest.approx(33.2e9 / 8)
    assert intra.direct_bandwidth[1, 0] == pytest.approx(1148.16e9 / 8)
    assert [device.memory_bytes // 2**30 for device in inter.devices] == [11, 16, 8, 8]
    assert [device.memory_bytes // 2**30 for device in intra.devices] == [32, 32, 16, 16]
    assert [device.group for device in intra.devices] == ["v100", "v100", "p100", "p100"]


def test_loading_by_name_and_from_a_file(tmp_path) -> None:
    assert tuple(ow.clusters.presets()) == CLUSTERS
    path = tmp_path / "cluster.json"
    path.write_text(preset("moirai-intra").model_dump_json())
    assert ow.clusters.load(path) == ow.clusters.load("moirai-intra") == preset("moirai-intra")
    assert ow.clusters.load("moirai-intra", precision="fp16").devices[0].flops_per_second == 125e12


def test_what_is_not_known_is_refused() -> None:
    with pytest.raises(ow.InvalidInputError, match="no device is called 'abacus'; there are: t4, p4"):
        ow.clusters.device("abacus", "a")
    with pytest.raises(
        ow.InvalidInputError, match="the int8 speed of Tesla P100 SXM2 is not known here; take 'fp32' or"
    ):
        ow.clusters.device("p100", "a", precision="int8")
    with pytest.raises(ow.InvalidInputError, match="no cluster is called 'x'"):
        preset("x")
