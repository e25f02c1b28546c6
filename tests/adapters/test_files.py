"""Reading refuses what could hurt; writing happens whole or not at all."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import stat
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import opweave as ow
from opweave.adapters.archives import read_arrays
from opweave.adapters.files import (
    check_folder_writable,
    check_writable,
    parse_json,
    read_bytes,
    read_json,
    write_bytes,
    write_text,
)
from opweave.adapters.onnx.dims import sizes_given
from opweave.problems.errors import InvalidInputError, LimitExceededError
from opweave.problems.limits import Limits

FULL = OSError(28, "No space left on device")

json_values = st.recursive(
    st.sampled_from([None, True, False, 2**53, -(2**53), 0.1, 1e300]) | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def test_json_comes_back_as_it_was_written(tmp_path: Path) -> None:
    for name in ("plain.json", "packed.json.gz"):
        write_text(tmp_path / name, json.dumps({"a": [1, 2.5, "\u00e4"]}, ensure_ascii=False))
        assert read_json(tmp_path / name) == {"a": [1, 2.5, "\u00e4"]}
    assert gzip.decompress((tmp_path / "packed.json.gz").read_bytes()) == (tmp_path / "plain.json").read_bytes()


@settings(max_examples=25)
@given(json_values)
def test_the_strict_parser_reads_all_json(value: object) -> None:
    assert parse_json(json.dumps(value).encode(), "example", limits=Limits(nesting=200)) == value


def _bomb(size: int) -> bytes:
    return gzip.compress(b" " * size, mtime=0)


BAD_JSON = [
    (b"", "the file is empty"),
    (b'{"a": [1, 2', "ends too early"),
    (b'{"a": "text', "cut off"),
    (b'{"a": 1,, "b": 2}', "line 1, column 9"),
    (b'{"a": 1, "a": 2}', "key 'a' appears twice"),
    (b'{"a": NaN}', "NaN, which is not a JSON number"),
    (b'{"a": -Infinity}', "-Infinity, which is not a JSON number"),
    (b'{"a": "\xff"}', "is not UTF-8"),
    ('{"a": 1}'.encode("utf-16"), "byte 0 is not UTF-8"),
    (b"[" * 100_000, "nested deeper than 64"),
    (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "objects are nested deeper than 64"),
    (b'{"a": ' + b"9" * 5000 + b"}", "thousands of digits"),
]


@pytest.mark.parametrize(("data", "sentence"), BAD_JSON, ids=[sentence for _, sentence in BAD_JSON])
def test_bad_json_is_refused_in_one_sentence(tmp_path: Path, data: bytes, sentence: str) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(data)
    with pytest.raises(InvalidInputError, match=sentence.replace("(", r"\(")) as caught:
        read_json(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_brackets_inside_strings_are_not_nesting() -> None:
    assert parse_json(b'["' + b"[" * 500 + b'\\"[[["]', "example") == ["[" * 500 + '"[[[']


@pytest.mark.parametrize("depth", [64, 65])
def test_nesting_is_counted_exactly(depth: int) -> None:
    text = b'{"a": [1, ' * (depth // 2) + b"[" * (depth % 2) + b"1" + b"]" * (depth % 2) + b"]}" * (depth // 2)
    with contextlib.nullcontext() if depth == 64 else pytest.raises(LimitExceededError):
        assert parse_json(text, "example") is not None


def test_an_unterminated_string_of_escapes_is_scanned_in_linear_time() -> None:
    with pytest.raises(InvalidInputError, match="ends too early"):
        parse_json(b'"' + b'\\"' * 1_000_000, "example")


def test_a_byte_order_mark_is_harmless() -> None:
    assert parse_json(b"\xef\xbb\xbf{}", "example") == {}


@pytest.mark.parametrize(
    ("data", "limits", "sentence"),
    [
        (_bomb(50_000_000), Limits(unpacked_bytes=1_000_000), "unpacks to more than the limit of 1,000,000 bytes"),
        (_bomb(1000)[:-4], Limits(), "ends too early"),
        (b"no gzip at all", Limits(), "not a valid gzip file"),
        (_bomb(100)[:10] + b"\xff" * 20, Limits(), "not a valid gzip file"),
        (_bomb(1000), Limits(file_bytes=10), "over the limit of 10"),
        (gzip.compress(b""), Limits(), "the file is empty"),
    ],
    ids=["bomb", "cut off", "not packed", "damaged", "large", "empty"],
)
def test_packed_files_are_unpacked_with_a_cap(tmp_path: Path, data: bytes, limits: Limits, sentence: str) -> None:
    path = tmp_path / "packed.json.gz"
    path.write_bytes(data)
    with pytest.raises(InvalidInputError, match=sentence):
        read_bytes(path, limits=limits)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("missing.json", "no such file"),
        ("", "this is a folder"),
        ("a\0b.json", "not a file name"),
        ("pipe.json", "not a regular file"),  # opening it would wait for ever
    ],
)
def test_what_is_no_file_is_refused(tmp_path: Path, name: str, sentence: str) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(InvalidInputError, match=sentence):
        read_bytes(tmp_path / name)


@pytest.mark.parametrize(
    ("error", "seen"),
    [(OSError(28, "No space left on device"), InvalidInputError), (KeyboardInterrupt(), KeyboardInterrupt)],
)
def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, seen: type[BaseException]
) -> None:
    target = tmp_path / "result.json"
    target.write_text("old")

    def full_disk(descriptor: int) -> None:
        raise error

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(seen, match="No space left on device" if error is FULL else None):
        write_text(target, "new")
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


def test_writing_keeps_links_modes_and_devices(tmp_path: Path) -> None:
    real = tmp_path / "real.json"
    real.write_text("old")
    real.chmod(0o640)
    (tmp_path / "link.json").symlink_to(real)
    write_text(tmp_path / "link.json", "new")
    assert (tmp_path / "link.json").is_symlink()
    assert real.read_text() == read_bytes(tmp_path / "link.json").decode() == "new"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    write_bytes("/dev/null", b"gone")
    assert not Path("/dev/null").is_file()


def test_unwritable_places_are_found_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for check, path, sentence in (
        (check_writable, tmp_path / "missing" / "result.json", "folder does not exist"),
        (check_writable, tmp_path, "it is a folder"),
        (check_writable, tmp_path / "file" / "result.json", r"cannot be written|not a folder"),
        (check_folder_writable, tmp_path / "file", "not a folder"),
    ):
        with pytest.raises(InvalidInputError, match=sentence):
            check(path)
    check_writable(tmp_path / "result.json")
    check_folder_writable(tmp_path / "new" / "report")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_arrays_come_back(tmp_path: Path) -> None:
    given = {"x": np.arange(6.0).reshape(2, 3), "rate": np.array(16_000), "block/mask": np.ones(4, bool)}
    np.savez_compressed(tmp_path / "in.npz", **given)
    found = read_arrays(tmp_path / "in.npz")
    assert found.keys() == given.keys()
    assert all(np.array_equal(found[name], array) for name, array in given.items())


def test_sizes_of_open_dimensions(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    from tests.adapters.onnx.nets import net

    onnx.save(net("(float[n, 4] x) => (float[n, 4] y) { y = Relu(x) }"), tmp_path / "net.onnx")
    assert sizes_given(tmp_path / "net.onnx", {"x": np.zeros((3, 4))}) == {"x:0": 3}
    assert sizes_given(tmp_path / "net.tflite", {"x": np.zeros((3, 4))}) == {}


def test_what_is_no_array_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "objects.npz", x=np.array([{}], object))
    with pytest.raises(ow.InvalidInputError, match=r"not an \.npz file of arrays"):
        read_arrays(tmp_path / "objects.npz")
    np.savez_compressed(tmp_path / "large.npz", x=np.zeros(10_000))
    with pytest.raises(ow.LimitExceededError, match="over the limit of 1,000"):
        read_arrays(tmp_path / "large.npz", limits=ow.Limits(unpacked_bytes=1000))
    with pytest.raises(ow.InvalidInputError, match="no such file"):
        read_arrays(tmp_path / "missing.npz")
