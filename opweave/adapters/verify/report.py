"""What a plan did to the real model: the verdict, and prediction beside measurement."""

from __future__ import annotations

from typing import Literal

from opweave.problems.spec import SCHEMA_VERSION, Bytes, Count, Many, Name, Number, Seconds, Spec

CLOSE = 1e-5
"""Largest difference from the runtime's optimised run, relative to the largest value of an output, or to 1."""

MEMORY_TOLERANCE = 0.01
"""Largest relative difference between predicted and measured peak that still passes."""


ONE_MACHINE = "the parts ran one after the other on this machine: outputs are compared, times are this machine's"
"""What a reader of a verified placement should know."""


class MemoryCheck(Spec):
    """Predicted and measured bytes of live tensors, step by step.

    Attributes
    ----------
    assumptions
        The reading of memory ordering that the runtime follows, and that the prediction is for.
    predicted, measured
        Bytes while each operator of the order runs. Weights are not counted.
    given_peak
        Measured peak of the model's own order under the same settings.
    default_peak
        Measured peak of the runtime left to itself, allocator's overhead included; None when not known.
    allocator_peak
        What the runtime's allocator had handed out at most, overhead included; None when not known.
    held_before
        What the runtime held before the first operator, and which is not counted: weights, packed for its kernels.
    explanation
        Why ``allocator_peak`` is above the peak of live tensors, in sentences.

    Examples
    --------
    >>> check = MemoryCheck(assumptions="peak", predicted=(8, 10), measured=(8, 11), given_peak=12)
    >>> check.measured_peak, check.equal_steps, check.error
    (11, 1, 0.1)
    """

    assumptions: str
    predicted: Many[Bytes]
    measured: Many[Bytes]
    given_peak: Bytes
    default_peak: Bytes | None = None
    allocator_peak: Bytes | None = None
    held_before: Bytes | None = None
    explanation: str = ""

    @property
    def predicted_peak(self) -> int:
        """Largest predicted footprint."""
        return max(self.predicted, default=0)

    @property
    def measured_peak(self) -> int:
        """Largest measured footprint."""
        return max(self.measured, default=0)

    @property
    def equal_steps(self) -> int:
        """In how many steps both are the same to the byte."""
        return sum(first == second for first, second in zip(self.predicted, self.measured, strict=True))

    @property
    def error(self) -> float:
        """Relative difference of the peaks."""
        return abs(self.measured_peak - self.predicted_peak) / max(self.predicted_peak, 1)


class OperatorTime(Spec):
    """Seconds of one operator; ``predicted`` is None where the problem knows no times."""

    operator: Name
    measured: Seconds
    predicted: Seconds | None = None


class Verification(Spec):
    """A plan, run on the real model and compared with the model as it was.

    Attributes
    ----------
    model, runtime, solution
        What was run, with what, and the kind of plan.
    pieces
        Into how many parts the model was cut; 1 for an order.
    order_obeyed
        Whether the runtime ran the operators in the planned order.
    outputs_equal
        Whether every output of the planned model equals the whole model's, bit for bit, optimisations off.
    outputs_close
        The same against the runtime's own optimised run, up to :data:`CLOSE`; None for runtimes that do not optimise.
    difference
        The largest absolute difference to that run (or to the whole model where there is none).
    memory
        None for plans that order no memory, and where the runtime tells nothing.
    times
        In the order in which they ran.
    claimed, claimed_assumptions
        Objective and reading of the result, as its solver left them.
    notes
        What else the reader should know.
    """

    schema_version: Literal[1] = SCHEMA_VERSION
    model: str
    runtime: str
    solution: str
    pieces: Count = 1
    order_obeyed: bool
    outputs_equal: bool
    outputs_close: bool | None = None
    difference: Number | None = None
    memory: MemoryCheck | None = None
    times: Many[OperatorTime] = ()
    claimed: Number | None = None
    claimed_assumptions: str = ""
    notes: Many[str] = ()

    @property
    def passed(self) -> bool:
        """Whether the plan holds: same outputs, the planned order, and the predicted peak of live tensors."""
        memory = self.memory is None or self.memory.error <= MEMORY_TOLERANCE
        return self.order_obeyed and self.outputs_equal and self.outputs_close is not False and memory
