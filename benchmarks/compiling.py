"""The cost of compiling the solvers' loops: CPU seconds to compile each loop, and to load it from disk.

Run ``python -m benchmarks.compiling [--smoke] [NAME ...]``; names choose loops by a part of their name. Each loop is
compiled in this process, so code that several loops share counts for the first loop that needs it.
"""

from __future__ import annotations

import gc
import sys
import time

from rich.console import Console
from rich.table import Table

from opweave.solvers.compiling.build import build, load
from opweave.solvers.compiling.warm import all_kernels

SMOKE = ("footprints", "_product")
"""Small loops for a quick run."""


def main(arguments: list[str]) -> None:
    """Print the table."""
    gc.disable()
    parts = SMOKE if "--smoke" in arguments else tuple(arguments)
    chosen = [each for each in all_kernels() if not parts or any(part in each.name for part in parts)]
    table = Table("loop", "compile (CPU s)", "load (CPU ms)", "KiB")
    sums = [0.0, 0.0]
    for kernel in chosen:
        began = time.process_time()
        packed = build(kernel.plain, kernel.signature)
        compiled = time.process_time() - began
        began = time.process_time()
        load(kernel.plain, packed)
        loaded = time.process_time() - began
        sums[0] += compiled
        sums[1] += loaded
        name = kernel.name.removeprefix("opweave.solvers.")
        table.add_row(name, f"{compiled:.2f}", f"{1e3 * loaded:.1f}", f"{len(packed) / 1024:.0f}")
    table.add_row(f"all {len(chosen)}", f"{sums[0]:.2f}", f"{1e3 * sums[1]:.1f}", "")
    Console(width=100).print(table)


if __name__ == "__main__":
    main(sys.argv[1:])
