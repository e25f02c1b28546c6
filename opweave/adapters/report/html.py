"""Tables and texts as HTML, with every character of users' names escaped."""

from __future__ import annotations

import html
from collections.abc import Sequence

from opweave.adapters.error_messages import plain


def text(value: str) -> str:
    """Escape a text."""
    return html.escape(plain(value))


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, css: str = "", caption: str = "") -> str:
    """Write a table; without headings, it has none."""
    above = f'<caption style="text-align: left">{text(caption)}</caption>' if caption else ""
    head = "".join(f"<th>{text(heading)}</th>" for heading in headings)
    body = "\n".join("<tr>" + "".join(f"<td>{text(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    top = f"<thead><tr>{head}</tr></thead>" if head else ""
    return f'<table class="{css}">{above}{top}<tbody>\n{body}\n</tbody></table>'
