"""Pyomo models of the older formulations as arrays, until all are ported to :mod:`opweave.formulations.modeling`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from opweave.formulations.modeling.arrays import MatrixModel, TriviallyInfeasibleError
from opweave.formulations.modeling.reading import Names, load_values, read_arrays, row_of, values_of
from opweave.formulations.modeling.rows import SMALLEST_COEFFICIENT, Block, Rows, join_blocks
from opweave.problems.arrays import FloatArray
from opweave.problems.errors import UnsupportedFeatureError

if TYPE_CHECKING:
    from pyomo.environ import ConcreteModel

__all__ = ["SMALLEST_COEFFICIENT", "Block", "Compiled", "MatrixModel", "TriviallyInfeasibleError", "compile_model"]


@dataclass(eq=False)
class Compiled:
    """A Pyomo model as arrays, and the Pyomo variables of the columns."""

    matrix: MatrixModel
    variables: list[Any]
    _known: set[int]
    _column: dict[int, int]
    _model: ConcreteModel

    def load(self, values: FloatArray) -> None:
        """Write the columns' values into the Pyomo variables; integer ones are rounded."""
        load_values(self.variables, np.where(self.matrix.whole, np.round(values), values))

    def current(self) -> FloatArray:
        """The values of the Pyomo variables by column, NaN where there is none."""
        return values_of(self.variables)

    def new_rows(self) -> Block:
        """Rows that were added to the Pyomo model since it was compiled, or since the last call.

        Raises
        ------
        UnsupportedFeatureError
            If a new row is not linear or has variables that the model did not have.
        """
        from pyomo.environ import Constraint

        data = [
            row for row in self._model.component_data_objects(Constraint, active=True) if id(row) not in self._known
        ]
        self._known.update(map(id, data))
        return _block(data, self._column)


def compile_model(model: ConcreteModel) -> Compiled:
    """Read a linear Pyomo model (see :func:`~opweave.formulations.modeling.pyomo.read_arrays`)."""
    from pyomo.environ import Constraint

    matrix, variables = read_arrays(model)
    known = {id(row) for row in model.component_data_objects(Constraint, active=True)}
    return Compiled(matrix, variables, known, {id(variable): k for k, variable in enumerate(variables)}, model)


def _block(data: Sequence[Any], column: dict[int, int]) -> Block:
    """A few rows, built one by one."""
    collected = Rows()
    for row in data:
        try:
            collected.add(row_of(row, lambda variable: column[id(variable)]))
        except KeyError as error:
            raise UnsupportedFeatureError(f"row {row.name} uses a variable that the compiled model lacks") from error
    block = join_blocks([collected.block()], Names(data))
    block.check()
    return block
