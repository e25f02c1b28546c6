"""Lifetimes as MiniMalloc writes them: in, out, and what is wrong with a file."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

import opweave as ow
from opweave.problems.limits import Limits

LINES = "id,lower,upper,size\nconv,0,2,4\nrelu,1,3,2\nadd,2,4,4\n"


def written(folder: Path, text: str, name: str = "net.csv") -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def test_a_file_is_a_problem(tmp_path: Path) -> None:
    problem = ow.MemoryLayout.from_csv(written(tmp_path, LINES), capacity=6, alignment=2)
    assert [(each.id, each.begin, each.end, each.bytes) for each in problem.lifetimes][1] == ("relu", 1, 3, 2)
    assert (problem.pools[0].bytes, problem.pools[0].alignment, problem.graph.name) == (6, 2, "net")
    assert ow.solve(problem).objective == 6
    pools = [ow.Pool(name="a"), ow.Pool(name="b")]
    packed = ow.MemoryLayout.from_csv(written(tmp_path, LINES, "net.csv.gz"), pools=pools)
    assert packed.lifetimes == problem.lifetimes
    assert ow.MemoryLayout.from_csv(written(tmp_path, LINES), capacity="1 KiB").pools[0].bytes == 1024


def test_alignment_and_fixed_offsets(tmp_path: Path) -> None:
    text = "id,lower,upper,size,alignment,offset\na,0,2,4,,\nb,0,2,4,8,16\n"
    problem = ow.MemoryLayout.from_csv(written(tmp_path, text))
    assert [each.alignment for each in problem.lifetimes] == [1, 8]
    assert dict(problem.fixed) == {"b": 16}


def test_out_and_in_again(tmp_path: Path) -> None:
    problem = ow.MemoryLayout.from_csv(written(tmp_path, LINES))
    path, result = tmp_path / "out.csv", ow.solve(problem)
    ow.runtimes.save_lifetimes(problem, path)
    assert path.read_text() == LINES
    ow.runtimes.save_lifetimes(problem, path, result)
    again = ow.MemoryLayout.from_csv(path)
    assert dict(again.fixed) == dict(result.solution.offset)
    assert ow.solve(again).objective == result.objective
    halves = problem.model_copy(update={"lifetimes": (ow.Lifetime(id="a", begin=0.5, end=2.25, bytes=1),)})
    ow.runtimes.save_lifetimes(halves, path)
    assert path.read_text().splitlines()[1] == "a,0,1,1"
    with pytest.raises(ow.InvalidInputError, match="has one arena"):
        ow.runtimes.save_lifetimes(problem.model_copy(update={"pools": (ow.Pool(name="a"), ow.Pool(name="b"))}), path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\n", "'id' is not among"),
        ("id,lower,upper\n", "'size' is not among"),
        ("id,lower,upper,size,gaps\n", "the column 'gaps' has no meaning here"),
        ("id,lower,upper,size\na,0,1,2,3\n", "line 2: it has not as many cells"),
        ("id,lower,upper,size\na,0,1,2.5\n", "line 2: size is '2.5', which is not a whole number"),
        ("id,lower,upper,size\na,0,1,-2\n", "bytes should be greater than or equal to 0"),
        ("id,lower,upper,size\na,3,1,2\n", "'a' ends at 1 before it begins at 3"),
        ("id,lower,upper,size\na,0,1,2\na,0,1,2\n", "two storages have the name 'a'"),
        ("id,lower,upper,size,alignment\na,0,1,2,3\n", "an alignment is a power of two, not 3"),
        ("id,lower,upper,size\n,0,1,2\n", "line 2: id should not be empty"),
        ("id,lower,upper,size\na,0,99999999999999999999,2\n", "which is not a whole number"),
    ],
)
def test_what_is_wrong_is_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ow.InvalidInputError, match=said) as caught:
        ow.MemoryLayout.from_csv(path)
    assert str(path) in str(caught.value)


def test_bytes_that_are_no_text_and_files_that_are_too_long(tmp_path: Path) -> None:
    path = tmp_path / "net.csv"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ow.InvalidInputError, match="is text in UTF-8"):
        ow.MemoryLayout.from_csv(path)
    with pytest.raises(ow.LimitExceededError, match="more than 2 rows"):
        ow.MemoryLayout.from_csv(written(tmp_path, LINES), limits=Limits(tensors=2))
    with pytest.raises(ow.InvalidInputError, match="there is no such file"):
        ow.MemoryLayout.from_csv(tmp_path / "missing.csv")
