"""All solvers of placement: importing this module registers them."""

# ruff: noqa: F401

from opweave.solvers import staged
from opweave.solvers.evolution import placement as evolution
from opweave.solvers.language import baselines as language
from opweave.solvers.language import layers
from opweave.solvers.placement import (
    auto,
    baselines,
    decompose,
    engines,
    local,
    moirai,
    reoptimise,
    tabu,
)
from opweave.solvers.placement.blocking import auto as blocking
