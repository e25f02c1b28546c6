"""What is proved of a plan, in one sentence."""

from __future__ import annotations

from typing import Any

from opweave.adapters.units import readable_share
from opweave.problems.result import Result, Status


def proof_sentence(result: Result[Any], better: str) -> str:
    """Say how much ``better`` ("shorter", "faster") a plan could be at most."""
    if result.status is Status.OPTIMAL:
        return f"It is proved that no plan is {better}."
    if result.gap is None:
        return f"Nothing is proved about how much {better} a plan could be."
    source = f" ({result.bound_source})" if result.bound_source else ""
    return f"No plan can be more than {readable_share(result.gap)} {better}{source}."
