"""OpenVINO IR as OpenVINO 2026 wrote it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import opweave as ow

FILES = Path(__file__).parents[2] / "data/files"
NO_RUN = ow.Limits(run_seconds=0)


def test_layers_tensors_and_constants() -> None:
    graph = ow.load(FILES / "small.xml", limits=NO_RUN)
    assert [op.id for op in graph.operators] == ["conv", "bias", "relu", "flat", "dense", "split", "sum"]
    tensors = {tensor.id: tensor for tensor in graph.tensors}
    assert tensors["image"].shape == (2, 3, 8, 8)
    assert tensors["conv"].bytes == 2 * 4 * 8 * 8 * 4
    assert tensors["flat"].alias_of == "features"
    assert [tensors[name].shape for name in graph.operators[5].outputs] == [(2, 1)] * 5
    conv = graph.operators[0]
    assert conv.flops == 2 * (2 * 4 * 8 * 8) * 27
    assert graph.parameter_bytes[conv.parameters[0]] == 4 * 3 * 3 * 3 * 4
    assert graph.operators[1].inputs == ("conv",)  # the half-precision constant is converted once
    assert graph.outputs == ("out", "features")


def test_a_loop_is_an_operator_with_workspace() -> None:
    graph = ow.load(FILES / "while_loop.xml", limits=NO_RUN)
    (loop,) = graph.operators
    assert loop.kind == "Loop"
    assert loop.workspace_bytes >= 2 * 8 * 8 * 4
    assert loop.flops >= 2 * 8**3


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "input 'image' .* has open dimensions; give their sizes, for example .*--dim image:0=1"),
        ({"dims": {"image:1": 8}}, "no dimension 'image:1'"),
        ({"dims": {"*": 2}, "limits": NO_RUN}, "the limits forbid it"),
    ],
)
def test_open_sizes_are_asked_for(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ow.InvalidInputError, match=sentence):
        ow.load(FILES / "small_open.xml", **given)


@pytest.mark.frameworks
def test_openvino_infers_the_shapes(tmp_path: Path) -> None:
    openvino = pytest.importorskip("openvino")
    path = tmp_path / "small.xml"
    path.write_bytes((FILES / "small_open.xml").read_bytes())
    (tmp_path / "small.bin").write_bytes((FILES / "small_open.bin").read_bytes())
    found = ow.load(path, dims={"*:0": 2})
    fixed = ow.load(FILES / "small.xml")
    assert [tensor.shape for tensor in found.tensors] == [tensor.shape for tensor in fixed.tensors]
    assert openvino.Core().read_model(path)


BOMB = """<?xml version="1.0"?><!DOCTYPE net [<!ENTITY a "aaaaaaaaaa">
<!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;">]>
<net name="&c;" version="11"/>"""

NEST = "<layers><layer id='1' type='Loop'><body>"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (BOMB, "declares a document type"),
        ('<!DOCTYPE net SYSTEM "file:///etc/passwd"><net version="11"/>', "declares a document type"),
        ("<net version='11'>" + NEST * 200 + "</body></layer></layers>" * 200 + "</net>", "nested deeper than 64"),
        ("<net version='11'/>", "a model without layers"),
        ("<net version='7'><layers/></net>", "not an OpenVINO model of version 10 or 11"),
        ("<html/>", "not an OpenVINO model"),
        ("<net version='11'><layers>", "not XML, or cut off"),
        ("<?xml version='1.0' encoding='nonsense'?><net/>", "not XML"),
    ],
)
def test_hostile_xml_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "m.xml"
    path.write_text(text)
    began = time.process_time()
    with pytest.raises(ow.InvalidInputError, match=said):
        ow.load(path)
    assert time.process_time() - began < 1.0
