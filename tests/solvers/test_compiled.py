"""Kernels: which version runs when, and what becomes of a stale cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from opweave.solvers.compiled import WORTH_COMPILING, Kernel, _readable_or_removed, kernel


@kernel
def doubled(x: int) -> int:
    return 2 * x


def test_small_work_runs_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPWEAVE_COMPILE", raising=False)
    fresh = Kernel(doubled.plain)
    assert fresh.sized(10) is fresh.plain


def test_work_adds_up_until_compiling_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPWEAVE_COMPILE", raising=False)
    fresh = Kernel(doubled.plain)
    assert fresh.sized(WORTH_COMPILING - 1) is fresh.plain or fresh._is_cached()
    assert fresh.sized(2)(21) == 42
    assert fresh.sized(1) is not fresh.plain


@pytest.mark.parametrize(("choice", "plain"), [("never", True), ("always", False)])
def test_the_environment_decides(monkeypatch: pytest.MonkeyPatch, choice: str, plain: bool) -> None:
    monkeypatch.setenv("OPWEAVE_COMPILE", choice)
    assert (doubled.sized(10**12) is doubled.plain) is plain


def test_a_cache_index_that_cannot_be_read_is_removed(tmp_path: Path) -> None:
    index = tmp_path / "module.doubled-1.py311.nbi"
    index.write_bytes(b"\x80\x05cno.such.module\nThing\n.")
    assert not _readable_or_removed(index)
    assert not index.exists()
