"""``python -m opweave``: the command line."""

from __future__ import annotations

from opweave.adapters.cli.main import main

if __name__ == "__main__":
    main()
