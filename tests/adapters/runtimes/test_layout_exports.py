"""C headers: a compiler's view of a layout."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import opweave as ow

L = ow.Lifetime
PROBLEM = ow.MemoryLayout(
    lifetimes=[
        L(id="conv/1:0", begin=0, end=2, bytes=64, alignment=16),
        L(id="conv_1_0", begin=1, end=3, bytes=10),
        L(id="3*/x", begin=2, end=4, bytes=5),
        L(id="größe", begin=0, end=1, bytes=7),
    ],
    pools=[ow.Pool(name="sram", bytes=80), ow.Pool(name="dram", alignment=8)],
)


def defined(text: str) -> dict[str, int]:
    return {name: int(value) for name, value in re.findall(r"#define (\w+) (\d+)u", text)}


def test_every_name_is_there_once() -> None:
    result = ow.solve(PROBLEM)
    text = ow.runtimes.c_header(PROBLEM, result, prefix="my net")
    found = defined(text)
    assert {"MY_NET_SRAM_BYTES", "MY_NET_DRAM_BYTES", "MY_NET_CONV_1_0_OFFSET"} <= found.keys()
    assert len([name for name in found if name.endswith("_OFFSET")]) == 4
    assert found["MY_NET_CONV_1_0_OFFSET"] == result.solution.offset["conv/1:0"]
    assert found["MY_NET_SRAM_ALIGNMENT"] == 16
    assert found["MY_NET_CONV_1_0_POOL"] == found[f"MY_NET_{result.solution.pool['conv/1:0'].upper()}_POOL"]
    used = {use.name: use.bytes for use in PROBLEM.evaluate(result).details.pools}
    assert (found["MY_NET_SRAM_BYTES"], found["MY_NET_DRAM_BYTES"]) == (used["sram"], used["dram"])


def test_a_compiler_takes_it(tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    (tmp_path / "layout.h").write_text(ow.runtimes.c_header(PROBLEM, ow.solve(PROBLEM)))
    (tmp_path / "main.c").write_text(
        '#include "layout.h"\n#include "layout.h"\n'
        "static unsigned char arena[OPWEAVE_SRAM_BYTES + 1];\n"
        "int main(void) { return arena[OPWEAVE_CONV_1_0_OFFSET]; }\n"
    )
    command = [compiler, "-Wall", "-Werror", "-o", tmp_path / "main", tmp_path / "main.c"]
    assert subprocess.run(command, check=False, capture_output=True).stderr == b""
    assert subprocess.run([tmp_path / "main"], check=False).returncode == 0
