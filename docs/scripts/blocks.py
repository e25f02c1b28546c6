"""Check the Python blocks of all pages by ``mypy --strict``: ``python docs/scripts/blocks.py``."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def modules(folder: Path) -> list[str]:
    """Write one module for each page with its blocks, from top to bottom; return the paths."""
    made = []
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
        if blocks:
            name = "_".join(page.relative_to(ROOT).with_suffix("").parts).lower()
            made.append(str(folder / f"{name}.py"))
            Path(made[-1]).write_text("\n\n".join(blocks), encoding="utf-8")
    return made


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "mypy", "--strict", *modules(Path(folder))]
        sys.exit(subprocess.run(command, cwd=ROOT, check=False).returncode)
