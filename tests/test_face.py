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


BUILT = """
import opweave
from opweave.problems.spec import Spec

def every(kind):
    for each in kind.__subclasses__():
        yield each
        yield from every(each)

print([kind.__name__ for kind in every(Spec) if kind.__pydantic_complete__])
"""
"""Names the specs whose validators an import has built."""


def printed(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_importing_builds_no_validators_of_data() -> None:
    """Each takes milliseconds."""
    assert printed(BUILT) == "[]"


def test_a_solve_imports_one_problem_and_no_helpers() -> None:
    code = """
import sys, opweave as ow
graph = ow.OpGraph(tensors=[ow.Tensor(id="x", bytes=4)], operators=[ow.Operator(id="p", outputs=["x"])])
assert ow.solve(ow.MemoryOrdering(graph)).verified
print([name for name in sys.modules if "spec" in name and ".problems." in name or "side_by_side.lead" in name])
"""
    assert printed(code) == "['opweave.problems.spec', 'opweave.problems.memory_ordering.spec']"


def test_a_star_import_has_problems_and_solve() -> None:
    assert printed("from opweave import *; print(Placement.kind, Schedule.kind, solve.__name__)").split() == [
        "placement",
        "schedule",
        "solve",
    ]


def test_all_kinds_are_known_whatever_was_imported() -> None:
    code = "import opweave as ow; {}; print(list(ow.Problem.kinds()), 'stages' in ow.Solution.kinds())"
    assert printed(code.format("ow.Placement")) == printed(code.format("pass"))
    assert "'slicing'] True" in printed(code.format("pass"))


def test_a_solution_of_ones_own_may_have_a_word_of_opweaves() -> None:
    code = """
import opweave as ow
class Layout(ow.Solution):
    rows: int
print(ow.Solution.kinds()["layout"] is Layout)
"""
    assert printed(code) == "True"


def test_a_generic_problem_of_ones_own_may_leave_types_open() -> None:
    code = """
import typing, opweave as ow
S, D = typing.TypeVar("S", bound=ow.Solution), typing.TypeVar("D", bound=ow.Details)
class Base(ow.Problem[S, D], typing.Generic[S, D]):
    pass
class Half(ow.Problem[S, ow.Details], typing.Generic[S]):
    pass
class First(Base[ow.Ordering, ow.Details]):
    pass
class Second(Half[ow.Ordering]):
    pass
print(First.kind, Second.kind)
"""
    assert printed(code) == "first second"


def test_importing_loads_no_framework_and_no_display() -> None:
    heavy = "('onnx', 'torch', 'keras', 'rich', 'matplotlib', 'pandas', 'pyomo.environ', 'pymoo')"
    code = f"import sys, opweave as ow; dir(ow); print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_option_has_a_meaning() -> None:
    rows = ow.list_solvers()
    assert sum(len(row.options) for row in rows) > 20
    for row in rows:
        for name, meaning in row.options.items():
            assert 10 < len(meaning) < 120, (row.name, name)
            assert "\n" not in meaning
    assert "MemoryCap" in next(row.constraints for row in rows if (row.problem, row.name) == ("placement", "highs"))
    with pytest.raises(ow.InvalidInputError, match="did you mean 'placement'"):
        ow.list_solvers("placment")


@pytest.mark.parametrize("namespace", ["keras", "llm", "onnx", "runtimes", "torch"])
def test_no_name_of_a_namespace_is_that_of_its_own_module(namespace: str) -> None:
    package = importlib.import_module(f"opweave.adapters.{namespace}")
    modules = {path.stem for path in Path(package.__file__).parent.glob("*.py")}
    assert not modules & set(package.__all__), "an import of the module would hide the function"
