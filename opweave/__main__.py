"""``opweave`` and ``python -m opweave``: the command line."""

from __future__ import annotations

import sys

from opweave import interrupts


def main() -> None:
    """Run the command line; Ctrl-C ends it without a traceback, also while modules are imported."""
    try:
        from opweave.adapters.cli.main import main as run

        interrupts.imported()
        run()
    except KeyboardInterrupt:
        sys.stderr.write(interrupts.SENTENCE)
        sys.exit(interrupts.STATUS)


if __name__ == "__main__":
    main()
