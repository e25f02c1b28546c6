"""The verdict on a plan after running the real model, with predictions and measurements side by side."""

from __future__ import annotations

from typing import Literal

from opweave.problems.spec import Bytes, Count, Many, Name, Number, Seconds, Spec, preset

CLOSE = 1e-5
"""Largest difference from the runtime's optimised run, relative to the largest value of an output, or to 1."""

MEMORY_TOLERANCE = 0.01
"""Largest relative difference between predicted and measured peaks that still passes."""

# A note for readers of a verified placement.
ONE_MACHINE = "the parts ran one after the other on this machine: outputs are compared, times are this machine's"


class MemoryCheck(Spec):
    """Predicted and measured bytes of live tensors, step by step.

    Attributes
    ----------
    assumptions
        The assumptions of memory ordering that the runtime follows and that the prediction is for.
    predicted, measured
        Bytes while each operator of the order runs. Weights are not counted.
    given_peak
        Measured peak of the model's own order under the same settings.
    default_peak
        Measured peak with the runtime's default settings, allocator overhead included; None when unknown.
    predicted_arena
        Predicted ``allocator_peak``, with the scratch memory of the kernels; the allocator may hand out larger blocks
        than it is asked for. None if that is not predicted.
    allocator_peak
        Most bytes that the runtime's allocator had handed out, overhead included; None when unknown.
    held_before
        Bytes that the runtime held before the first operator, mostly packed weights; they are not counted.
    explanation
        Remarks of earlier versions.

    Examples
    --------
    >>> check = MemoryCheck(assumptions="peak", predicted=(8, 10), measured=(8, 11), given_peak=12)
    >>> check.measured_peak, check.equal_steps, check.error
    (11, 1, 0.1)
    """

    assumptions: str
    predicted: Many[int]
    measured: Many[int]
    given_peak: Bytes
    default_peak: int | None = None
    predicted_arena: int | None = None
    allocator_peak: int | None = None
    held_before: int | None = None
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
        """Number of steps in which both are equal to the byte."""
        return sum(first == second for first, second in zip(self.predicted, self.measured, strict=True))

    @property
    def error(self) -> float:
        """Relative difference of the peaks; at least 1 if the allocator handed out several times what was predicted."""
        far = (self.allocator_peak or 0) > 4 * max(self.predicted_peak, self.predicted_arena or 0) + 2**16
        return max(abs(self.measured_peak - self.predicted_peak) / max(self.predicted_peak, 1), float(far))


class RunCost(Spec):
    """What a run costs, measured in a process of its own.

    Attributes
    ----------
    seconds
        Processor seconds of the best of several runs.
    process_bytes
        Largest memory of the process, with weights and the runtime itself.
    arena_bytes
        Largest use of the runtime's arena during a run, without what the session held before; None when unknown.
    """

    seconds: Seconds
    process_bytes: Bytes
    arena_bytes: int | None = None


class OperatorTime(Spec):
    """Seconds of one operator; ``predicted`` is None if the problem has no times."""

    operator: Name
    measured: Seconds
    predicted: float | None = None


class Verification(Spec):
    """A plan that was run on the real model and compared with the original model.

    Attributes
    ----------
    model, runtime, solution
        The model, the runtime that ran it, and the kind of plan.
    pieces
        Number of parts into which the model was cut; 1 for an order.
    order_obeyed
        Whether the runtime ran the operators in the planned order.
    outputs_equal
        Whether every output of the planned model equals the original model's, bit for bit, with optimisations off.
    outputs_close
        The same up to :data:`CLOSE` against the runtime's own optimised run or, where optimising alone changes the
        outputs by more, against its run of the original model without optimisations; None for runtimes that do not
        optimise.
    difference
        The largest absolute difference from that run (or from the original model if there is none).
    memory
        None for plans that order no memory, and for runtimes that provide no figures.
    by_default, as_planned
        The cost of a run of the original model with the runtime's default settings, and of a run of the planned model;
        None for plans that order no memory.
    times
        Operator times in the order in which the operators ran.
    claimed, claimed_assumptions
        Objective and assumptions of the result, as its solver stated them.
    notes
        Further remarks for the reader.
    """

    schema_version: Literal[1] = 1
    model: str
    runtime: str
    solution: str
    pieces: Count = 1
    order_obeyed: bool
    outputs_equal: bool
    outputs_close: bool | None = None
    difference: Number | None = None
    memory: MemoryCheck | None = None
    by_default: RunCost | None = None
    as_planned: RunCost | None = None
    times: Many[OperatorTime] = preset(())
    claimed: Number | None = None
    claimed_assumptions: str = ""
    notes: Many[str] = preset(())

    @property
    def passed(self) -> bool:
        """Whether the plan holds: same outputs, the planned order, and memory as predicted."""
        memory = self.memory is None or self.memory.error <= MEMORY_TOLERANCE
        return self.order_obeyed and self.outputs_equal and self.outputs_close is not False and memory
