"""Recording PyTorch computations: every dispatched operator of a forward pass or of a whole training step.

:mod:`opweave.adapters.torch.read` reads an exported program; this module follows a run, operator by operator. It covers
backward passes, optimisers, control flow that depends on Python values, and tens of thousands of operators. Tensors on
the meta device and fake tensors take no memory. Composite operators appear as their components, which PyTorch chooses
for the device: attention is one kernel on the CPU, and its plain formula on the meta device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from opweave.adapters.graphs.kinds import INPLACE_KINDS, short_kind
from opweave.adapters.torch.ledger import Call, Ledger
from opweave.adapters.torch.program import advice, reason
from opweave.adapters.torch.twin import faked, tensors_in, twin
from opweave.problems.errors import InvalidInputError
from opweave.problems.graph import OpGraph
from opweave.problems.limits import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    import torch


def trace_step(
    step: Callable[[], object],
    *,
    inputs: Sequence[torch.Tensor] = (),
    modules: Sequence[torch.nn.Module] = (),
    name: str = "step",
    inplace_kinds: Set[str] = INPLACE_KINDS,
    limits: Limits = DEFAULT_LIMITS,
) -> OpGraph:
    """Build a graph from one call of a function, by recording the operators that it dispatches.

    * Operators are named by short name and position, such as ``relu_12``. The module is the innermost one whose forward
      was running; operators of the backward pass and the optimiser have none.
    * Parameters and buffers of ``modules`` are parameters. So is any other tensor that existed before the call
      (``constant_3``), such as the state of an optimiser.
    * Outputs are the tensors that the function returns, and the gradients of parameters when it returns.

    Parameters
    ----------
    step
        The function; it is called once. On the meta device this takes no memory and little time. With real tensors it
        really runs, and all of its memory is held until the end.
    inputs
        Tensors that count as inputs of the graph.
    modules
        Modules whose parameters are named by their paths.
    name
        Name of the graph.
    inplace_kinds
        Kinds (full or short names) whose operators get ``inplace_ok``; empty for none.
    limits
        Caps on the graph's size.

    Raises
    ------
    InvalidInputError, LimitExceededError
        When the function fails, for example because it reads a value on the meta device.
    """
    ledger = Ledger(name, inplace_kinds, limits)
    for position, tensor in enumerate(inputs):
        ledger.add_input(f"input_{position}", tensor)
    parameters = [parameter for module in modules for parameter in module.parameters()]
    try:
        for module in modules:
            for path, tensor in (*module.named_parameters(), *module.named_buffers()):
                ledger.add_parameter(path, tensor)
        with _paths(modules) as path, _recorder(ledger, path):
            result = step()
    except InvalidInputError:
        raise
    except Exception as error:  # any error of the user's function or of torch
        raise InvalidInputError(f"{name}: {reason(error)}; {_what_to_do(error)}") from error
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    return ledger.graph(tensors_in((result, gradients)))


def trace_training(
    module: torch.nn.Module,
    args: Sequence[object] = (),
    kwargs: Mapping[str, object] | None = None,
    *,
    loss: Callable[[Any], torch.Tensor] | None = None,
    optimizer: Callable[[Iterable[torch.nn.Parameter]], torch.optim.Optimizer] | None = None,
    inplace_kinds: Set[str] = INPLACE_KINDS,
    limits: Limits = DEFAULT_LIMITS,
) -> OpGraph:
    """Build the graph of a training step: forward, backward, and the optimiser if one is given.

    The step is traced on a copy of the module made of fake tensors, as a run on the CPU would proceed. Nothing is
    computed, no weight is copied, and the module is not changed. With an optimiser, the second step is traced, because
    the optimiser's state exists by then; gradients are freed after their use, as ``zero_grad`` does before the next
    step. Without an optimiser, the gradients are outputs.

    Parameters
    ----------
    module
        The module; it is traced in its current mode (training or evaluation).
    args, kwargs
        Example inputs of ``forward``, on any device; floating-point inputs are not trained.
    loss
        Computes a scalar from the output of ``forward``. By default, this is the field ``loss`` of the output if it
        exists, otherwise the sum of its first tensor.
    optimizer
        Makes an optimiser for given parameters, for example ``lambda p: torch.optim.SGD(p, 0.1, momentum=0.9)``.
    inplace_kinds, limits
        As for :func:`trace_step`.

    Raises
    ------
    InvalidInputError, LimitExceededError
        When a step fails; the message says what to do.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode

    name = f"{type(module).__name__} training step"
    fake = FakeTensorMode()
    with fake:
        copied, (places, words) = twin(module), faked((tuple(args), dict(kwargs or {})))
    judge = loss or _default_loss
    updates = None
    if optimizer is not None:
        updates = optimizer([parameter for parameter in copied.parameters() if parameter.requires_grad])

    def step() -> torch.Tensor:
        with fake:
            value = judge(copied(*places, **words))
            value.backward()
        if updates is not None:  # outside, because optimisers count their steps in tensors whose values they read
            updates.step()
            updates.zero_grad()
        return value.detach()

    if updates is not None:
        try:
            step()
        except Exception as error:  # any error of the user's functions or of torch
            raise InvalidInputError(f"{name}: {reason(error)}; {_what_to_do(error)}") from error
    return trace_step(
        step,
        inputs=tensors_in((places, words)),
        modules=[copied],
        name=name,
        inplace_kinds=inplace_kinds,
        limits=limits,
    )


def _default_loss(output: Any) -> torch.Tensor:
    found = getattr(output, "loss", None)
    return found if found is not None else tensors_in(output)[0].sum()


def _what_to_do(error: BaseException) -> str:
    if "meta" in str(error).lower() or "item()" in str(error):
        return "values cannot be read on the meta device, and all tensors must be on it; change that line"
    return advice(error)


@contextmanager
def _paths(modules: Sequence[torch.nn.Module]) -> Iterator[Callable[[], str]]:
    """Follow which module's forward is running; the context is a function that returns its path."""
    stack: list[str] = []
    hooks = []

    def leave(*_: object) -> None:
        if stack:
            stack.pop()

    for part, path in {part: path for module in modules for path, part in module.named_modules()}.items():
        hooks.append(part.register_forward_pre_hook(lambda *_, path=path: stack.append(path)))
        hooks.append(part.register_forward_hook(leave, always_call=True))
    try:
        yield lambda: stack[-1] if stack else ""
    finally:
        for hook in hooks:
            hook.remove()


def _recorder(ledger: Ledger, path: Callable[[], str]) -> Any:
    """A dispatch mode that records every call. The class is defined here because its base class comes from torch."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class CallRecorder(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(
            self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            result = func(*args, **(kwargs or {}))
            name = f"{short_kind(str(func))}_{len(ledger)}"
            ledger.record(Call(name, func, args, kwargs or {}, result, module=path()))
            return result

    return CallRecorder()
