"""The XML of OpenVINO IR, without what a hostile file could do with XML: no document types, so no entities."""

from __future__ import annotations

import io
from collections.abc import Mapping
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from opweave.problems.errors import InvalidInputError, LimitExceededError
from opweave.problems.limits import Limits

_CHUNK = 1 << 20
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
    reader, parser = _Reader(where, limits), expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = reader.start, reader.end
    parser.CharacterDataHandler = reader.text
    parser.StartDoctypeDeclHandler = reader.refuse
    parser.buffer_text = True
    stream = io.BytesIO(content)
    try:
        while chunk := stream.read(_CHUNK):
            parser.Parse(chunk, False)
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise InvalidInputError(f"{where}: not XML, or cut off ({error}); convert or download it again") from None
    except (ValueError, LookupError) as error:
        if isinstance(error, InvalidInputError):
            raise
        raise InvalidInputError(f"{where}: not XML in an encoding that is known here ({error})") from None
    return reader.root()


class _Reader:
    def __init__(self, where: str, limits: Limits) -> None:
        self._where, self._limits = where, limits
        self._builder = TreeBuilder()
        self._depth = self._skipped = self._count = 0

    def start(self, word: str, attributes: Mapping[str, str]) -> None:
        self._depth += 1
        if self._depth > self._limits.nesting:
            raise InvalidInputError(f"{self._where}: elements are nested deeper than {self._limits.nesting}")
        if self._skipped or (word not in _KEPT and self._depth > 1):
            self._skipped += 1
            return
        self._count += 1
        if self._count > self._limits.edges:
            raise LimitExceededError(f"{self._where}: more than {self._limits.edges:,} elements")
        self._builder.start(word, dict(attributes))

    def end(self, word: str) -> None:
        self._depth -= 1
        if self._skipped:
            self._skipped -= 1
        else:
            self._builder.end(word)

    def text(self, text: str) -> None:
        if not self._skipped:
            self._builder.data(text)

    def refuse(self, *_: object) -> None:
        raise InvalidInputError(f"{self._where}: it declares a document type, which OpenVINO never writes")

    def root(self) -> Element:
        return self._builder.close()
