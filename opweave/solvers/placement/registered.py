"""All solvers of placement: importing this module registers them."""

from opweave.solvers import staged
from opweave.solvers.evolution import placement as evolution
from opweave.solvers.language import baselines as language
from opweave.solvers.language import layers
from opweave.solvers.placement import (
    auto,
    baselines,
    decompose,
    engines,
    equal_units,
    lanes,
    local,
    moirai,
    small,
    tabu,
)
from opweave.solvers.placement.blocking import auto as blocking

__all__ = [
    "auto",
    "baselines",
    "blocking",
    "decompose",
    "engines",
    "equal_units",
    "evolution",
    "lanes",
    "language",
    "layers",
    "local",
    "moirai",
    "small",
    "staged",
    "tabu",
]
