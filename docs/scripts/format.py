"""Format the Python blocks of the pages for their width: ``python docs/scripts/format.py``. Needs ruff."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

BLOCK = re.compile(r"(^```python\n)(.*?)(^```$)", re.DOTALL | re.MULTILINE)
WIDTH = 88


def formatted(match: re.Match[str]) -> str:
    """A block with lines that fit."""
    call = [sys.executable, "-m", "ruff", "format", "--line-length", str(WIDTH), "--isolated", "-"]
    code = subprocess.run(call, input=match[2], capture_output=True, text=True, check=True).stdout
    return match[1] + code + match[3]


if __name__ == "__main__":
    for page in (Path(__file__).parents[1]).rglob("*.md"):
        before = page.read_text(encoding="utf-8")
        after = BLOCK.sub(formatted, before)
        if after != before:
            page.write_text(after, encoding="utf-8")
