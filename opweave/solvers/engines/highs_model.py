"""Models and options in HiGHS: the rows passed are counted, and every return status is checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opweave.problems.errors import EngineError

if TYPE_CHECKING:
    import highspy

    from opweave.formulations.modeling.arrays import MatrixModel
    from opweave.formulations.modeling.rows import Block
    from opweave.solvers.engines.child_engine import Work
    from opweave.solvers.run import Run

LARGEST_SEED = 2**31 - 1


def load_highs(matrix: MatrixModel) -> highspy.Highs:
    """Pass a model in one piece, and count what HiGHS received.

    Raises
    ------
    EngineError
        If HiGHS warns, fails, or holds fewer rows, columns or entries than it was given.
    """
    import highspy

    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    option(solver, "output_flag", value=False)
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = matrix.columns, len(matrix.rows)
    lp.col_cost_, lp.offset_ = matrix.cost, matrix.offset
    lp.col_lower_, lp.col_upper_ = matrix.lower, matrix.upper
    lp.row_lower_, lp.row_upper_ = matrix.rows.lower, matrix.rows.upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.num_col_, lp.a_matrix_.num_row_ = matrix.columns, len(matrix.rows)
    lp.a_matrix_.start_ = matrix.rows.start
    lp.a_matrix_.index_ = matrix.rows.index
    lp.a_matrix_.value_ = matrix.rows.value
    kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
    lp.integrality_ = [kinds[whole] for whole in matrix.whole.tolist()]
    checked(solver.passModel(lp), "passModel")
    _count(solver, matrix.columns, len(matrix.rows), len(matrix.rows.value))
    return solver


def add_block(solver: highspy.Highs, block: Block, engine: str) -> None:
    """Add rows and count them.

    Raises
    ------
    EngineError
        If there are none although the last solution violated some, or not all of them arrive.
    """
    if len(block) == 0:
        raise EngineError(f"{engine} returned a solution that breaks rows which it was given")
    rows, entries = solver.getNumRow() + len(block), solver.getNumNz() + len(block.value)
    checked(
        solver.addRows(
            len(block), block.lower, block.upper, len(block.value), block.start[:-1], block.index, block.value
        ),
        "addRows",
    )
    _count(solver, solver.getNumCol(), rows, entries)


def set_options(solver: highspy.Highs, asked: Run | Work) -> None:
    """Set the gap, seed, threads and tolerances of a solve."""
    option(solver, "mip_rel_gap", asked.gap)
    # With restarts, HiGHS 1.15 has called 1.2609 optimal in a program that has a point with 1.2284.
    option(solver, "mip_allow_restart", False)
    option(solver, "random_seed", asked.seed % LARGEST_SEED)
    option(solver, "threads", asked.threads)
    option(solver, "parallel", "on" if asked.threads > 1 else "off")


def option(solver: highspy.Highs, name: str, value: bool | int | float | str) -> None:
    """Set an option by its name in HiGHS."""
    checked(solver.setOptionValue(name, value), f"option {name}")


def checked(status: highspy.HighsStatus, what: str) -> None:
    """Raise an error for any status but success; HiGHS warns when it changed or dropped something."""
    if status.name != "kOk":
        raise EngineError(f"highs answered {status.name} to {what}")


def _count(solver: highspy.Highs, columns: int, rows: int, entries: int) -> None:
    held = (solver.getNumCol(), solver.getNumRow(), solver.getNumNz())
    if held != (columns, rows, entries):
        raise EngineError(
            f"highs holds {held[0]:,} columns, {held[1]:,} rows and {held[2]:,} entries of the model; it was given "
            f"{columns:,}, {rows:,} and {entries:,}"
        )
