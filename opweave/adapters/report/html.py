"""Tables and texts as HTML, with every character of users' names escaped."""

from __future__ import annotations

import html
from collections.abc import Sequence

from opweave.problems.errors import plain


def text(value: str) -> str:
    """Escape a text."""
    return html.escape(plain(value))


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, css: str = "", caption: str = "") -> str:
    """Write a table; without headings, it has none.

    Columns of words say that they are aligned to the left, because notebooks align all cells to the right.
    """
    words = [any(not cell[:1].isdigit() for cell in column) for column in zip(*rows, strict=False)]
    looks = [' style="text-align: left"' if word else "" for word in words] or [""] * len(headings)
    above = f'<caption style="text-align: left">{text(caption)}</caption>' if caption else ""
    head = "".join(f"<th{look}>{text(heading)}</th>" for look, heading in zip(looks, headings, strict=False))
    lines = ("".join(f"<td{look}>{text(cell)}</td>" for look, cell in zip(looks, row, strict=False)) for row in rows)
    body = "\n".join(f"<tr>{line}</tr>" for line in lines)
    top = f"<thead><tr>{head}</tr></thead>" if head else ""
    look = f' class="{css}"' if css else ""
    return f"<table{look}>{above}{top}<tbody>\n{body}\n</tbody></table>"
