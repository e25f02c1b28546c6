"""The XML of OpenVINO IR, without what a hostile file could do with XML: no document types, so no entities."""

from __future__ import annotations

from collections.abc import Mapping
from xml.etree.ElementTree import Element, ParseError, TreeBuilder, XMLParser

from opweave.problems.errors import InvalidInputError, LimitExceededError
from opweave.problems.limits import Limits

_WORDS = """
    back_edges body data dim edge edges else_body input layer layers net output port port_map then_body
"""
_KEPT = frozenset(_WORDS.split())
"""Elements that describe the graph; others, such as the converter's notes, are skipped."""


def read_document(content: bytes, where: str, limits: Limits) -> Element:
    """Parse a file into its elements that describe the graph.

    Parameters
    ----------
    content
        The file.
    where
        Its name in errors.
    limits
        ``nesting`` caps the depth, ``edges`` the number of elements.

    Raises
    ------
    InvalidInputError, LimitExceededError
        When it is no XML, has a document type, is nested too deep or too large.
    """
    parser = XMLParser(target=_Builder(where, limits))
    try:
        parser.feed(content)
        root: Element = parser.close()
    except (ParseError, LookupError) as error:
        raise InvalidInputError(f"{where}: not XML, or cut off ({error}); convert or download it again") from None
    return root


class _Builder(TreeBuilder):
    """Builds the elements that describe the graph."""

    def __init__(self, where: str, limits: Limits) -> None:
        super().__init__()
        self._where, self._limits = where, limits
        self._depth = self._skipped = self._count = 0

    def start(self, tag: str, attrs: Mapping[str, str], /) -> Element | None:  # type: ignore[override]
        self._depth += 1
        if self._depth > self._limits.nesting:
            raise InvalidInputError(f"{self._where}: elements are nested deeper than {self._limits.nesting}")
        self._skipped += bool(self._skipped or (tag not in _KEPT and self._depth > 1))
        self._count += not self._skipped
        if self._count > self._limits.edges:
            raise LimitExceededError(f"{self._where}: more than {self._limits.edges:,} elements")
        return None if self._skipped else super().start(tag, dict(attrs))

    def end(self, tag: str, /) -> Element | None:  # type: ignore[override]
        self._depth -= 1
        self._skipped -= bool(skipped := self._skipped)
        return None if skipped else super().end(tag)

    def data(self, data: str, /) -> None:
        if not self._skipped:
            super().data(data)

    def doctype(self, *_: object) -> None:
        raise InvalidInputError(f"{self._where}: it declares a document type, which OpenVINO never writes")
