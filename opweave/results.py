"""Classes that functions of opweave return, for annotations and ``isinstance``."""

from opweave.adapters.verify.report import Verification
from opweave.formulations.export.write import ModelFile
from opweave.problems.batched_mapping.spec import BatchTransfer
from opweave.problems.costs import Calibration
from opweave.problems.placement.spec import Transfer
from opweave.problems.result import Incumbent, Termination
from opweave.problems.shown import Rows
from opweave.problems.solution import Evaluation
from opweave.solvers.constraint_table import HonouredConstraints
from opweave.solvers.engines.registration import FormulationInfo
from opweave.solvers.questions.compare import Comparison
from opweave.solvers.questions.conflict import Conflict, Proof, Repair
from opweave.solvers.questions.pareto import Front
from opweave.solvers.questions.sweep import Sweep
from opweave.solvers.registry import SolverInfo
from opweave.solvers.run import Progress

__all__ = [
    "BatchTransfer",
    "Calibration",
    "Comparison",
    "Conflict",
    "Evaluation",
    "FormulationInfo",
    "Front",
    "HonouredConstraints",
    "Incumbent",
    "ModelFile",
    "Progress",
    "Proof",
    "Repair",
    "Rows",
    "SolverInfo",
    "Sweep",
    "Termination",
    "Transfer",
    "Verification",
]
