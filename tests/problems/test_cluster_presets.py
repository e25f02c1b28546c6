"""Presets say what the tables say."""

from __future__ import annotations

import pytest

import opweave as ow
from opweave.problems.device_sheets import CLUSTERS, preset


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


@pytest.mark.parametrize("name", CLUSTERS)
def test_half_precision_can_be_planned_on_every_preset(name: str) -> None:
    single, half = preset(name), preset(name, "fp16")
    for slow, fast in zip(single.devices, half.devices, strict=True):
        assert fast == slow.model_copy(update={"flops_per_second": fast.flops_per_second})
        assert fast.flops_per_second >= slow.flops_per_second


def test_a_one_way_link_is_a_link() -> None:
    devices = [ow.Device(name="a"), ow.Device(name="b")]
    ow.clusters.check_links(ow.Cluster(devices=devices, bandwidth=[[0, 1], [0, 0]]))
    ow.clusters.check_links(ow.Cluster(devices=devices[:1]))
