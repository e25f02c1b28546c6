"""The cost of compiling the solvers' loops: processor seconds for each loop, all of them, and the slowest.

Run ``python -m benchmarks.compiling [--smoke] [NAME ...]``; names choose loops by a part of their name. Each loop is
compiled in this process into an empty folder, so a helper that several loops share counts for the first one. What numba
loads before it compiles anything has a row of its own.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time

from rich.console import Console
from rich.table import Table

from opweave.solvers.loops import loops_of

SMOKE = ("footprints", "_product")
"""Small loops for a quick run."""


def main(arguments: list[str]) -> None:
    """Print the table, the slowest loop first."""
    parts = SMOKE if "--smoke" in arguments else tuple(arguments)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["NUMBA_CACHE_DIR"] = folder
        import numba

        began = time.process_time()
        numba.njit("f8(f8[:,::1], i8)")(lambda table, row: max(table[row, 0], 0.0))
        seconds = {"(numba itself, once)": time.process_time() - began}
        for each in loops_of():
            if not parts or any(part in each.name for part in parts):
                began = time.process_time()
                each.compile()
                seconds[each.name.removeprefix("opweave.solvers.")] = time.process_time() - began
    table = Table("loop", "compile (CPU s)")
    for name in sorted(seconds, key=lambda name: -seconds[name]):
        table.add_row(name, f"{seconds[name]:.2f}")
    table.add_row(f"all {len(seconds) - 1}", f"{sum(seconds.values()):.2f}")
    Console(width=100).print(table)


if __name__ == "__main__":
    main(sys.argv[1:])
