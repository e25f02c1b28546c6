"""Devices and links: what travels how fast, and which descriptions are refused."""

from __future__ import annotations

from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given
from pydantic import ValidationError

from opweave.problems.cluster import Cluster, Device
from opweave.problems.errors import InvalidInputError
from tests.strategies.specs import clusters

MB = 10**6


def cluster(count=3, **fields):
    """Devices a, b, c, ... and their links."""
    return Cluster(devices=[Device(name=name) for name in "abcdefgh"[:count]], **fields)


def line(**fields):
    """The chain a - b - c: 10 MB/s, then 5 MB/s."""
    return cluster(bandwidth=[[0, 10e6, 0], [10e6, 0, 5e6], [0, 5e6, 0]], **fields)


def test_by_hand():
    # 100 MB through b: the slower link, 5 MB/s, sets the pace
    assert line().transfer_seconds(100 * MB, "a", "c") == 20.0
    assert line().transfer_seconds(100 * MB, "a", "b") == 10.0
    assert line(latency=0.25).transfer_seconds(100 * MB, "a", "c") == 20.5
    assert line(latency=0.25).transfer_seconds(0, "c", "a") == 0.5
    assert line(latency=0.25).transfer_seconds(100 * MB, "c", "c") == 0.0


def test_directions_may_differ():
    two = cluster(2, bandwidth=[[9, 2], [4, 9]], latency=[[7, 1], [3, 7]])
    assert two.transfer_seconds(8, "a", "b") == 1 + 4
    assert two.transfer_seconds(8, "b", "a") == 3 + 2
    assert np.diag(two.effective_latency).tolist() == [0, 0]
    assert np.isinf(np.diag(two.effective_bandwidth)).all()


def test_a_direct_link_is_used_even_where_a_detour_is_wider():
    three = cluster(bandwidth=[[0, 10, 1], [10, 0, 10], [1, 10, 0]])
    assert three.transfer_seconds(10, "a", "c") == 10.0


def test_a_router_gives_a_pair_the_smaller_rate():
    three = cluster(rates=[4, 2, 8], latency=1)
    assert three.effective_bandwidth[~np.eye(3, dtype=bool)].tolist() == [2, 4, 2, 2, 4, 2]
    assert three.transfer_seconds(8, "a", "c") == 3.0


def test_a_shared_channel():
    assert cluster(shared=4).transfer_seconds(8, "a", "c") == 2.0


def test_unreachable_devices_are_data():
    three = cluster(bandwidth=[[0, 1, 0], [0, 0, 0], [0, 0, 0]])
    with pytest.raises(InvalidInputError, match="no link or chain of links leads from device 'b' to 'a'"):
        three.transfer_seconds(1, "b", "a")
    assert np.isinf(three.effective_latency[1, 0])


def test_one_device_needs_no_links():
    one = cluster(1)
    assert one.effective_bandwidth.tolist() == [[np.inf]]
    assert one.effective_latency.tolist() == [[0]]
    assert one.identical_groups == (("a",),)


def test_identical_groups():
    gpu = {"memory_bytes": 8, "group": "gpu"}
    devices = [Device(name="a", **gpu), Device(name="cpu"), Device(name="b", **gpu), Device(name="c", **gpu)]
    assert Cluster(devices=devices, shared=1).identical_groups == (("a", "b", "c"), ("cpu",))
    assert Cluster(devices=devices, rates=[1, 1, 2, 1]).identical_groups == (("a", "c"), ("cpu",), ("b",))
    links = np.full((4, 4), 3.0)
    links[0, 2] = 4
    assert Cluster(devices=devices, bandwidth=links).identical_groups == (("a",), ("cpu",), ("b",), ("c",))
    links[2, 0] = 4
    assert Cluster(devices=devices, bandwidth=links).identical_groups == (("a", "b"), ("cpu",), ("c",))


REFUSED = [
    ({"bandwidth": [[0, 1], [1, 0]]}, "bandwidth has 2 rows for 3 devices"),
    ({"bandwidth": [[0, 1, 1], [1, 0], [1, 1, 0]]}, "row 1 of bandwidth has 2 values for 3 devices"),
    ({"rates": [1, 2]}, "rates has 2 values for 3 devices; give one for each device"),
    ({"shared": 1, "latency": [[0]]}, "latency has 1 rows for 3 devices"),
    ({}, "3 devices need a description of their links: bandwidth, rates or shared"),
    ({"shared": 1, "rates": [1, 1, 1]}, "the links are described by rates and shared; give only one of them"),
    ({"shared": float("inf")}, "shared"),
    ({"shared": -1}, "shared"),
    ({"shared": True}, "shared"),
    ({"rates": [1, float("nan"), 1]}, "rates.1"),
    ({"bandwidth": [[0, "1", 1], [1, 0, 1], [1, 1, 0]]}, r"bandwidth\[0\]\[1\]"),
    ({"bandwidth": [[0, 1, 1], [1, 0, np.inf], [1, 1, 0]]}, r"bandwidth\[1\]\[2\]"),
    ({"bandwidth": np.ones((3, 3), dtype=bool)}, r"bandwidth\[0\]\[0\]"),
    ({"bandwidth": 5.0}, "bandwidth"),
    ({"shared": 1, "latency": -1}, "latency"),
    ({"shared": 1, "latency": "1"}, "latency"),
    ({"shared": 1, "latency": np.True_}, "latency"),
    ({"shared": 1, "latency": [[0, 1, -1], [1, 0, 1], [1, 1, 0]]}, r"latency\[0\]\[2\]"),
]


@pytest.mark.parametrize(("fields", "sentence"), REFUSED)
def test_refused_links(fields, sentence):
    with pytest.raises(ValidationError, match=sentence):
        cluster(**fields)


@pytest.mark.parametrize(
    ("devices", "sentence"),
    [
        ([], "devices"),
        ([Device(name="a")] * 2, "device name 'a' is used more than once; names must be unique"),
    ],
)
def test_refused_devices(devices, sentence):
    with pytest.raises(ValidationError, match=sentence):
        Cluster(devices=devices, shared=1.0)


def test_bad_questions():
    with pytest.raises(InvalidInputError, match="the cluster has no device 'z'; it has 'a', 'b', 'c'"):
        line().transfer_seconds(1, "a", "z")
    with pytest.raises(InvalidInputError, match="-1 bytes cannot be moved"):
        line().transfer_seconds(-1, "a", "b")


def test_views_cannot_be_written():
    for view in ("direct_bandwidth", "direct_latency", "effective_bandwidth", "effective_latency"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(line(), view)[0, 1] = 0


def widest_and_quickest(given, start, end):
    """Rate and latency of the best simple path, by trying all of them."""
    direct, wait = given.direct_bandwidth, given.direct_latency
    if direct[start, end] > 0:
        return direct[start, end], wait[start, end]
    others = [k for k in range(len(direct)) if k not in (start, end)]
    best = (0.0, -np.inf)
    for count in range(1, len(others) + 1):
        for middle in permutations(others, count):
            hops = list(pairwise([start, *middle, end]))
            best = max(best, (min(direct[hop] for hop in hops), -sum(wait[hop] for hop in hops)))
    return best[0], -best[1]


@given(given_cluster=clusters(max_devices=4))
def test_closure_against_all_paths(given_cluster):
    for start, end in permutations(range(len(given_cluster.devices)), 2):
        rate, wait = widest_and_quickest(given_cluster, start, end)
        assert given_cluster.effective_bandwidth[start, end] == rate
        if rate > 0:
            assert given_cluster.effective_latency[start, end] == pytest.approx(wait)
        else:
            assert np.isnan(given_cluster.link_seconds(start, end, 1.0))


@given(given_cluster=clusters())
def test_groups_partition_the_devices(given_cluster):
    grouped = [name for group in given_cluster.identical_groups for name in group]
    assert sorted(grouped) == sorted(given_cluster.device_index)
