from __future__ import annotations

import pytest

from opweave.problems.shown import Rows


def test_a_row_is_one_line_of_the_terminals_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    rows = Rows({"name": f"row {number}", "words": "long " * 40, "more": "words " * 40} for number in range(3))
    lines = repr(rows).splitlines()
    assert len(lines) == 4
    assert max(map(len, lines)) <= 80


def test_columns_without_anything_are_left_out_and_kept_in_pandas() -> None:
    rows = Rows([{"name": "a", "nothing": None, "yes": True, "many": frozenset({"y", "x"})}])
    assert repr(rows) == "name  yes  many\na     yes  x, y"
    pytest.importorskip("pandas")
    assert list(rows.to_pandas().columns) == ["name", "nothing", "yes", "many"]


def test_html_escapes_what_users_name() -> None:
    assert "<b>" not in Rows([{"name": "<b>"}])._repr_html_()


def test_no_rows() -> None:
    assert (repr(Rows()), len(Rows())) == ("(no rows)", 0)
