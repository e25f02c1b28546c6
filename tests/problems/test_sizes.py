"""Sizes and rates as people write them; implausible ones are told."""

from __future__ import annotations

import warnings

import pytest

import opweave as ow


@pytest.mark.parametrize(
    ("written", "kept"),
    [("8GB", 8 * 10**9), ("512 MiB", 2**29), ("1.5 KiB", 1536), (8e9, 8 * 10**9), (8 * 1e9, 8 * 10**9), (2**53, 2**53)],
)
def test_bytes(written: object, kept: int) -> None:
    for found in (
        ow.Device(name="a", memory_bytes=written).memory_bytes,
        ow.Tensor(id="x", bytes=written).bytes,
        ow.Operator(id="o", workspace_bytes=written).workspace_bytes,
        ow.MemoryCap(device="a", bytes=written).bytes,
    ):
        assert found == kept
        assert type(found) is int


@pytest.mark.parametrize("written", ["8", "-8 GB", "8 GB/s", "nan GB", "", 8.5, "9 PB PB", "99 PiB", 1e300])
def test_bytes_that_are_refused(written: object) -> None:
    with pytest.raises(ow.InvalidInputError):
        ow.Device(name="a", memory_bytes=written)


@pytest.mark.parametrize(
    ("written", "meant"),
    [("8 Gb", "1 GB"), ("8Gbit", "1 GB"), ("12 Mib", "1.5 MiB"), ("1.5 Gb", "0.1875 GB"), ("64 bits", "8 B")],
)
def test_bits_are_no_bytes(written: str, meant: str) -> None:
    with pytest.raises(ow.InvalidInputError, match=f"means bits; write '{meant}'"):
        ow.Device(name="a", memory_bytes=written)


@pytest.mark.parametrize(
    ("field", "written", "kept"),
    [
        ("flops_per_second", "40 GFLOP/s", 40e9),
        ("flops_per_second", "1.5 TFLOPS", 1.5e12),
        ("memory_bandwidth", "900 GB/s", 900e9),
        ("memory_bandwidth", "10 Gbit/s", 1.25e9),
        ("memory_bandwidth", "1 GiB/s", 2.0**30),
    ],
)
def test_rates(field: str, written: str, kept: float) -> None:
    device = ow.Device(name="a", **{field: written})
    assert getattr(device, field) == kept
    assert ow.Device.model_validate_json(device.model_dump_json()) == device


@pytest.mark.parametrize("written", ["5 GB", "10 Gb/s", "fast", "40 GFLOP/s", "5 GB/s/s"])
def test_bandwidths_that_are_refused(written: str) -> None:
    with pytest.raises(ow.InvalidInputError, match="write"):
        ow.Cluster(devices=[ow.Device(name="a"), ow.Device(name="b")], bandwidth=[[0, written], [written, 0]])


def test_links_take_rates_in_every_form() -> None:
    two = [ow.Device(name="a"), ow.Device(name="b")]
    links = ow.Cluster(devices=two, bandwidth=[[0, "8 Gbit/s"], ["1 GB/s", 0]])
    assert links.bandwidth == ((0.0, 1e9), (1e9, 0.0))
    assert ow.Cluster(devices=two, shared="1 GB/s").shared == 1e9
    assert ow.Cluster(devices=two, rates=["1 GB/s", 5]).rates == (1e9, 5.0)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("memory_bytes", 512, "device 'a': memory_bytes is 512 bytes; if you mean more, write '512 MiB' or '512 GB'"),
        ("flops_per_second", 40, "'40 GFLOP/s' or '40 TFLOP/s'"),
        ("memory_bandwidth", 900, "'900 GB/s'"),
    ],
)
def test_implausible_numbers_are_told_where_they_are_written(field: str, value: int, words: str) -> None:
    with pytest.warns(ow.ImplausibleWarning) as said:
        ow.Device(name="a", **{field: value})
    assert [words in str(one.message) for one in said] == [True]
    assert said[0].filename == __file__


def test_a_matrix_is_told_once() -> None:
    two = [ow.Device(name="a"), ow.Device(name="b")]
    with pytest.warns(ow.ImplausibleWarning, match="bandwidth is 10 bytes per second.*10 Gbit/s") as said:
        ow.Cluster(devices=two, bandwidth=[[0, 10], [20, 0]])
    assert len(said) == 1


def test_plausible_numbers_and_copies_in_solvers_are_silent() -> None:
    small = ow.Device(name="a", memory_bytes=64)
    graph = ow.OpGraph(tensors=[ow.Tensor(id="x", bytes=4)], operators=[ow.Operator(id="o", outputs=["x"])])
    costs = ow.Costs.from_table({"o": {"a": 1.0}})
    problem = ow.Placement(graph=graph, cluster=ow.Cluster(devices=[small]), costs=costs)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ow.ImplausibleWarning)
        ow.Device(name="a", memory_bytes=0, flops_per_second=1e6)
        assert ow.solve(problem).verified
