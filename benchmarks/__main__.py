"""Short runs of the benchmarks that are named, one after the other: ``python -m benchmarks placement slicing``.

Each runs in a copy of this process, which has imported the compiler and the package once for all of them.
"""

from __future__ import annotations

import os
import runpy
import sys

import numba  # noqa: F401  imported once for all of them


def main() -> None:
    """Run every benchmark named on the command line; the exit status counts those that failed."""
    failed = 0
    for name in sys.argv[1:]:
        process = os.fork()
        if process == 0:
            sys.argv = [name, "--smoke"]
            runpy.run_module(f"benchmarks.{name}", run_name="__main__")
            sys.exit()
        failed += os.waitpid(process, 0)[1] != 0
    sys.exit(failed)


if __name__ == "__main__":
    main()
