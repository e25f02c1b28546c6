"""The collector is back after a pause, whatever happened meanwhile, and stays off for whoever turned it off."""

from __future__ import annotations

import gc

import pytest

from opweave.problems.problem import collector_paused


def test_the_collector_is_back_after_a_pause() -> None:
    with collector_paused():
        assert not gc.isenabled()
        with collector_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(KeyError), collector_paused():
        raise KeyError
    assert gc.isenabled()


def test_a_collector_that_is_off_stays_off() -> None:
    gc.disable()
    try:
        with collector_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
