"""``opweave`` and ``python -m opweave``: the command line."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; Ctrl-C ends it without a traceback, also while modules are imported."""
    try:
        from opweave.adapters.cli.main import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("opweave: interrupted\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
