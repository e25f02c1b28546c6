"""What a user sees of the package: names, help and dir."""

from __future__ import annotations

import importlib
import inspect
import pydoc
import subprocess
import sys
from pathlib import Path

import pytest

import opweave as ow
import opweave.solvers.run as run_module
from opweave.formulations.modeling.linear import WORDS

NOUNS = [ow.Placement, ow.MemoryOrdering, ow.Device, ow.OpGraph, ow.Pin, ow.Result, ow.Schedule]


def told(thing: object) -> str:
    return pydoc.render_doc(thing, renderer=pydoc.plaintext)


def test_help_fits_a_reader() -> None:
    assert len(told(ow)) < 100_000
    for noun in NOUNS:
        assert len(told(noun)) < 15_000, noun
    for name in ("Placement", "solve", "list_solvers", "Constraint", "InvalidInputError", "onnx"):
        assert name in told(ow)


@pytest.mark.parametrize("word", [*WORDS, "objective"])
def test_help_lists_the_handles(word: str) -> None:
    assert f"``model.{word}" in (ow.solve.__doc__ or "")
    assert word == "objective" or f"``model.{word}(" in (ow.express.__doc__ or "")


def test_help_lists_the_targets() -> None:
    assert all(f'``"{target}"``' in (ow.express.__doc__ or "") for target in ("order_arcs", "step_rule", "model"))


def test_dir_has_no_clutter() -> None:
    for noun in NOUNS:
        names = dir(noun)
        assert not [name for name in names if name.startswith(("_", "model_construct", "parse_", "dict"))], noun
        assert "model_dump_json" in names
    device = ow.Device(name="a")
    assert {"name", "memory_bytes", "alike"} <= set(dir(device))
    assert "Placement" in dir(ow)
    assert "split_onnx" not in dir(ow)
    assert "logging" not in dir(ow)


def test_every_name_of_dir_is_there() -> None:
    assert [name for name in dir(ow) if not hasattr(ow, name)] == []


def test_signatures_read_like_the_source() -> None:
    signature = inspect.signature(ow.Device)
    assert str(signature).startswith("(*, name: Name, memory_bytes: Bytes | None = None")
    assert "schema_version" not in inspect.signature(ow.OpGraph).parameters


def test_solvers_is_the_package() -> None:
    assert inspect.ismodule(ow.solvers)
    assert ow.solvers.run is run_module


def test_names_of_frameworks_have_namespaces_and_keep_working() -> None:
    assert ow.onnx.split_onnx is ow.split_onnx
    assert ow.torch.trace_step is ow.trace_step
    assert ow.runtimes.vllm_partition is ow.vllm_partition
    assert "from_keras" in dir(ow.keras)
    with pytest.raises(AttributeError, match="did you mean 'solve'"):
        _ = ow.slove
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = ow.onnx.nothing


PRINTS = {
    "importing builds no validators of data: each takes milliseconds": (
        """
def every(kind):
    return [kind, *(each for sub in kind.__subclasses__() for each in every(sub))]
import opweave
from opweave.problems.spec import Spec
print([kind.__name__ for kind in every(Spec)[1:] if kind.__pydantic_complete__])""",
        "[]",
    ),
    "importing loads no framework and no display": (
        """
import sys, opweave as ow
dir(ow)
heavy = ("onnx", "torch", "keras", "rich", "matplotlib", "pandas", "pyomo.environ", "pymoo")
print([name for name in heavy if name in sys.modules])""",
        "[]",
    ),
    "a solve imports one problem and no helpers": (
        """
import sys, opweave as ow
graph = ow.OpGraph(tensors=[ow.Tensor(id="x", bytes=4)], operators=[ow.Operator(id="p", outputs=["x"])])
assert ow.solve(ow.MemoryOrdering(graph)).verified
print([name for name in sys.modules if "spec" in name and ".problems." in name or "side_by_side.lead" in name])""",
        "['opweave.problems.spec', 'opweave.problems.memory_ordering.spec']",
    ),
    "a star import has problems and solve": (
        "from opweave import *; print(Placement.kind, Schedule.kind, solve.__name__)",
        "placement schedule solve",
    ),
    "all kinds are known whatever was imported": (
        """
import opweave as ow
before = list(ow.extend.Problem.kinds()), "stages" in ow.extend.Solution.kinds()
ow.Placement
print(before == (list(ow.extend.Problem.kinds()), True), "slicing" in ow.extend.Problem.kinds())""",
        "True True",
    ),
    "a solution of one's own may have a word of opweave's, and a generic problem may leave types open": (
        """
import typing, opweave as ow
class Layout(ow.extend.Solution):
    rows: int
S, D = typing.TypeVar("S", bound=ow.extend.Solution), typing.TypeVar("D", bound=ow.extend.Details)
class Base(ow.extend.Problem[S, D], typing.Generic[S, D]):
    pass
class Half(ow.extend.Problem[S, ow.extend.Details], typing.Generic[S]):
    pass
class First(Base[ow.Ordering, ow.extend.Details]):
    pass
class Second(Half[ow.Ordering]):
    pass
print(ow.extend.Solution.kinds()["layout"] is Layout, First.kind, Second.kind)""",
        "True first second",
    ),
}
"""Programs, each for a process of its own, and what they print."""


@pytest.mark.parametrize(("code", "printed"), PRINTS.values(), ids=PRINTS)
def test_a_fresh_process(code: str, printed: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == printed


def test_every_option_has_a_meaning() -> None:
    rows = ow.list_solvers()
    assert sum(len(row.options) for row in rows) > 20
    for row in rows:
        for name, meaning in row.options.items():
            assert 10 < len(meaning) < 120, (row.name, name)
            assert "\n" not in meaning
    assert "MemoryCap" in next(row.constraints for row in rows if (row.problem, row.name) == ("placement", "highs"))


@pytest.mark.parametrize("namespace", ["keras", "llm", "onnx", "runtimes", "torch"])
def test_no_name_of_a_namespace_is_that_of_its_own_module(namespace: str) -> None:
    package = importlib.import_module(f"opweave.adapters.{namespace}")
    modules = {path.stem for path in Path(package.__file__).parent.glob("*.py")}
    assert not modules & set(package.__all__), "an import of the module would hide the function"
