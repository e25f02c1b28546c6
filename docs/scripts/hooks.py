"""What mkdocs does on the way: formulas become MathML, and a site that would fetch anything is refused."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

log = logging.getLogger("mkdocs.hooks.opweave")

FORMULA = re.compile(
    r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL
)
ENTITIES = {"&lt;": "<", "&gt;": ">", "&amp;": "&"}

ROLE = re.compile(r":(?:func|class|meth|mod|data|attr|exc):\s*<code>~?([\w.]+)</code>")
"""A name in a docstring, as Sphinx would link it."""

WORKER = re.compile(r"<script src=[^>]*iframe-worker[^>]*></script>")

FETCHED = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|embed)\b[^>]*?\b(?:src|srcset)\s*=\s*["']?\s*((?:https?:)?//[^"'\s>]+)"""
    r"""|<link\b(?=[^>]*\brel=["']?(?:stylesheet|preload|prefetch|preconnect|icon|modulepreload|manifest))"""
    r"""[^>]*?\bhref\s*=\s*["']?\s*((?:https?:)?//[^"'\s>]+)"""
    r"""|(?:@import|url\()\s*["']?\s*((?:https?:)?//[^"'\s)]+)""",
    re.IGNORECASE,
)
"""What a browser fetches by itself; a link that a reader may click is none of it."""


def on_files(files: Any, config: Any, **_: Any) -> Any:
    """Take the changelog and the guide for contributors from the top of the repository."""
    from mkdocs.structure.files import File

    top = Path(config["docs_dir"]).parent
    for title in ("Changelog", "Contributing"):
        text = (top / f"{title.upper()}.md").read_text(encoding="utf-8")
        files.append(
            File.generated(
                config, f"{title.lower()}.md", content=f"# {title}\n\n{text}"
            )
        )
    return files


def on_page_content(html: str, **_: Any) -> str:
    """Turn formulas into MathML, which browsers draw without a script, and roles of docstrings into plain names."""
    return ROLE.sub(
        lambda match: f"<code>{match[1].rpartition('.')[2]}</code>",
        FORMULA.sub(_formula, html),
    )


def on_post_page(output: str, config: Any, **_: Any) -> str:
    """Put our own script for search from the file system in the place of one that would be fetched."""
    own = (Path(config["docs_dir"]) / "assets/frame_worker.js").read_text(
        encoding="utf-8"
    )
    inline = own.replace(
        "</script>", r"<\/script>"
    )  # or it would end the script that it stands in
    return WORKER.sub(lambda _: f"<script>{inline}</script>", output)


def on_post_template(output_content: str, config: Any, **_: Any) -> str:
    """The same for the page that says that a page is missing."""
    return on_post_page(output_content, config)


def on_post_build(config: Any, **_: Any) -> None:
    """Warn of everything that a page would fetch from elsewhere; with ``--strict`` this fails the build."""
    for path, address in fetched(Path(config["site_dir"])):
        log.warning("%s would be fetched from %s", address, path)


def fetched(site: Path) -> list[tuple[Path, str]]:
    """List the addresses elsewhere that pages and style sheets of a site would fetch."""
    return [
        (path, next(each for each in match.groups() if each))
        for path in sorted(site.rglob("*"))
        if path.suffix in {".html", ".css", ".svg"}
        for match in FETCHED.finditer(path.read_text(encoding="utf-8"))
    ]


def _formula(match: re.Match[str]) -> str:
    from latex2mathml.converter import convert

    tag, bracket, text = match.groups()
    for entity, character in ENTITIES.items():
        text = text.replace(entity, character)
    text = text.replace("{aligned}", "{align*}")  # which the converter knows
    display = "block" if bracket == "[" else "inline"
    return f'<{tag} class="arithmatex">{convert(text, display=display)}</{tag}>'
