"""Every code block of the README and of the documentation, and every example, as a reader would run it.

Pages are run one by one, from top to bottom.

A comment before a block says what is special about it::

    <!-- needs: torch -->    needs these packages; blocks that need a framework run under ``-m frameworks``
    <!-- skeleton -->        is only compiled
    <!-- file: NAME -->      is written to that file, for the blocks below
    <!-- prints -->          is what the block above prints

Of console blocks, the lines that call opweave are run.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import os
import re
import runpy
import shlex
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import opweave as ow

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FRAMEWORKS = {"torch", "keras", "onnx", "onnxruntime", "openvino", "tflite_micro", "executorch"}
"""Blocks that need one of these, and the blocks below them that need nothing more, run with the marked tests only."""

HEAVY = "opweave.adapters.cli.main highspy matplotlib.figure numba pandas pyomo.environ scipy.optimize"
"""What many pages import; it is imported once, as all loops are loaded, before pages run in forked processes."""

ARGUMENTS = {"plan_model_file.py": [str(ROOT / "tests/data/MobileNetV2.json.gz")]}
"""What examples are called with."""

FENCE = re.compile(
    r"^(?:<!-- (?P<mark>[^\n]*) -->\n)?(?P<ticks>```)(?P<language>\w+)[^\n]*\n(?P<code>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Block:
    """A block of code, with its line and its mark."""

    line: int
    language: str
    code: str
    mark: str

    @property
    def needs(self) -> set[str]:
        """Packages that the block names."""
        _, said, names = self.mark.partition("needs: ")
        return {name.strip() for name in names.split(",")} if said else set()


def blocks_of(page: Path) -> list[Block]:
    """The blocks of a page."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(text.count("\n", 0, each.start("code")), each["language"], each["code"], each["mark"] or "")
        for each in FENCE.finditer(text)
    ]


def run_page(page: Path, frameworks: bool = False) -> None:
    """Run the blocks of a page in one namespace, in the current folder."""
    names: dict[str, object] = {"__name__": "__main__"}
    printed = ""
    for block in blocks_of(page):
        where = f"{page.relative_to(ROOT)}:{block.line}"
        if any(importlib.util.find_spec(name) is None for name in block.needs):
            continue
        if block.needs & FRAMEWORKS and not frameworks:
            continue
        if block.mark.startswith("file: "):
            Path(block.mark.removeprefix("file: ")).write_text(block.code, encoding="utf-8")
        elif block.mark == "prints":
            assert squeezed(printed) == squeezed(block.code), f"{where} is not what is printed:\n{printed}"
        elif block.language == "python":
            code = compile(block.code, where, "exec")
            if block.mark != "skeleton":
                with contextlib.redirect_stdout(io.StringIO()) as out:
                    exec(code, names)
                printed = out.getvalue()
        elif block.language == "console":
            printed = "".join(run_command(line, where) for line in commands(block.code))


def squeezed(text: str) -> list[str]:
    """The lines without spaces at their ends, and without who proved a bound: that depends on the machine's speed."""
    return [re.sub(r"the bound from '[^']+'", "the bound", line.rstrip()) for line in text.strip().splitlines()]


def commands(code: str) -> Iterator[list[str]]:
    """The arguments of the lines that call opweave."""
    for line in code.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words and words[0] in {"opweave", ".venv/bin/opweave"}:
            yield words[1:]


def run_command(arguments: list[str], where: str) -> str:
    """Run the command line here; return what it printed."""
    from opweave.adapters.cli.main import main

    before = sys.argv
    sys.argv = ["opweave", *arguments]
    try:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            main()
    except SystemExit as ended:
        assert ended.code in {0, None}, f"{where}: opweave {' '.join(arguments)} ended with {ended.code}"
    finally:
        sys.argv = before
    return out.getvalue()


def run_apart(run: Callable[[Path], None], paths: list[Path]) -> None:
    """Run pages or scripts, each in a forked process and an empty folder: they register solvers and write files."""
    for name in HEAVY.split():
        importlib.import_module(name)
    ow.list_solvers()  # imports them
    ow.warm()
    failed = []
    for path in paths:
        child = os.fork()
        if child == 0:
            _run_child(run, path)
        if os.waitpid(child, 0)[1]:
            failed.append(str(path.relative_to(ROOT)))
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


def _run_child(run: Callable[[Path], None], path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name in ("benchmarks", "examples", "tests", "docs", "opweave"):
            Path(name).symlink_to(ROOT / name)
        try:
            run(path)
            sys.stderr.flush()
        except BaseException:
            traceback.print_exc()
            os.chdir(ROOT)
            os._exit(1)
        os.chdir(ROOT)
    os._exit(0)


def run_elsewhere(run: str, paths: list[Path]) -> None:
    """Run all of them in a process of its own; ``run`` is an expression."""
    listed = [str(path) for path in paths]
    call = f"from tests.test_documents import *; run_apart({run}, list(map(Path, {listed})))"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", call],
        env={**os.environ, "PYTHONPATH": str(ROOT), "MPLBACKEND": "agg"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def run_page_or_example(path: Path) -> None:
    """Run the blocks of a page, or a script."""
    if path.suffix == ".md":
        run_page(path)
    else:
        run_example(path)


def run_example(path: Path) -> None:
    """Run a script as a reader would; it has to print something."""
    sys.argv = [str(path), *ARGUMENTS.get(path.name, [])]
    sys.path.insert(0, str(path.parent))
    with contextlib.redirect_stdout(io.StringIO()) as out:
        runpy.run_path(str(path), run_name="__main__")
    assert out.getvalue(), f"{path} prints nothing"


@pytest.mark.slow
def test_the_blocks_and_the_examples_run() -> None:
    """All in one test, because importing what they import takes longer than most of them."""
    examples, known = sorted((ROOT / "examples").glob("*.py")), importlib.util.find_spec("pandas") is not None
    run_elsewhere("run_page_or_example", [*(PAGES if known else []), *examples])
    if not known:
        pytest.skip("the examples ran; pages need pandas")


@pytest.mark.slow
@pytest.mark.frameworks
def test_the_blocks_that_need_frameworks_run() -> None:
    pages = [page for page in PAGES if any(block.needs & FRAMEWORKS for block in blocks_of(page))]
    run_elsewhere("lambda page: run_page(page, frameworks=True)", pages)


def test_every_block_is_either_run_or_marked() -> None:
    known = {"python", "console", "text", "json", "toml", "csv", "yaml"}
    for page in PAGES:
        for block in blocks_of(page):
            assert block.language in known, (page, block.line)
            assert block.mark in {"", "prints", "skeleton"} or block.mark.startswith(("needs: ", "file: ")), block


def test_the_tables_in_the_pages_are_current() -> None:
    script = [sys.executable, ROOT / "docs/scripts/tables.py", "--check"]  # in a process without other tests' solvers
    done = subprocess.run(
        script, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert not done.returncode, f"run: python docs/scripts/tables.py ({done.stderr[-500:]})"


def test_every_page_is_in_the_navigation() -> None:
    listed = set(re.findall(r"[\w/]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8")))
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert listed == pages | {"changelog.md", "contributing.md"}


def test_every_picture_is_made_by_a_script_and_used() -> None:
    scripts = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs/scripts").glob("*.py"))
    pages = "".join(path.read_text(encoding="utf-8") for path in PAGES)
    for picture in (ROOT / "docs/figures").iterdir():
        assert picture.stem in scripts, picture
        assert picture.name in pages, picture


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_the_links_of_the_files_at_the_root_lead_somewhere(name: str) -> None:
    links = re.findall(r"\]\(([^)#]+)\)", (ROOT / name).read_text(encoding="utf-8"))
    assert all(link.startswith("http") or (ROOT / link).exists() for link in links), links


def test_every_public_name_is_in_the_reference() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs/reference").glob("*.md"))
    listed = {name.rpartition(".")[2] for name in re.findall(r"^::: opweave\.([\w.]+)$", pages, re.MULTILINE)}
    listed |= set(re.findall(r"``(\w+)``", str(ow.extend.__doc__)))  # types of fields, which have no page of their own
    modules = {"cluster", "clusters", "extend", "keras", "llm", "onnx", "results", "runtimes", "torch", "__version__"}
    layers = {"solvers", "formulations", "problems", "adapters"}
    spaces = (ow.onnx, ow.torch, ow.keras, ow.llm, ow.runtimes, ow.cluster, ow.extend, ow.results)
    assert not {*dir(ow), *(name for space in spaces for name in space.__all__)} - listed - modules - layers
