"""The report of a serving flow: what it says, its table of layers, its files; and a conflict."""

from pathlib import Path

import opweave as ow
from tests.tiny import PROBLEMS

PROBLEM = PROBLEMS["serving_flow"]


def test_the_report_names_tokens_layers_and_the_cut(tmp_path: Path) -> None:
    result = ow.solve(PROBLEM)
    text = result.explain()
    assert "tokens per second flow through" in text
    assert "The narrowest cut is" in text
    page = result.report(tmp_path / "out")
    assert "Layers" in page.read_text()
    assert (page.parent / "blocks.json").is_file()
    assert (page.parent / "blocks.png").is_file()
