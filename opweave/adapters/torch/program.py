"""A PyTorch model as an exported program whose nodes have a fixed order and known shapes; otherwise an error."""

from __future__ import annotations

import io
import logging
import os
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, redirect_stderr
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opweave.adapters.files import PathLike
from opweave.adapters.torch.archive import harmless_copy
from opweave.adapters.torch.twin import fake_mode, faked, on_meta, plain_outputs, tensors_in, twin
from opweave.problems.errors import InvalidInputError, OpweaveError, plain
from opweave.problems.limits import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram
    from torch.fx import Node

_WRAPPERS = ("wrap_with_set_grad_enabled", "wrap_with_autocast")
"""Calls that only wrap a range of nodes in a mode; decomposing the program removes them."""

_FUNCTION_TRANSFORMS = "torch._functorch"
"""The module of calls that begin and end ``torch.vmap`` and its like; decomposing the program carries them out."""

_RECORD = "or record one run on real inputs with trace_step"
_OPEN_INPUT = "export it with example inputs of fixed sizes and without dynamic_shapes"
_OPEN_RESULT = f"where its size depends on values, rewrite that line with masks or fixed sizes, {_RECORD}"
_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
"""What to do about errors, by words in their messages and in the names of their types."""

_FALLBACK = (
    "make sure that model(*args, **kwargs) and torch.export.export(model, args, kwargs, strict=False) work, " + _RECORD
)


def prepare(
    model: torch.nn.Module | ExportedProgram,
    args: Sequence[object] = (),
    kwargs: Mapping[str, object] | None = None,
) -> ExportedProgram:
    """Export a module; an exported program is used as it is.

    Nothing is decomposed, so convolutions and attention stay whole and nodes keep their names. Decomposing would turn
    dropout in evaluation mode, which returns its input, into a copy, and thus invent memory. Only a program with calls
    that wrap others in a gradient or autocast mode is decomposed (with an empty table), which removes these calls.

    Parameters
    ----------
    model
        A module, best built under ``torch.device("meta")``, because weights are never read. It is exported in its
        current mode (training or evaluation), without gradients.
    args, kwargs
        Example inputs of ``forward``. The plan holds for their sizes; inputs on the meta device work with any module.

    Raises
    ------
    InvalidInputError
        When there are no inputs, export fails, or a dimension or a step depends on values. The message names the node.
    """
    from torch.export import ExportedProgram

    if isinstance(model, ExportedProgram):
        if len(args) or kwargs:
            raise InvalidInputError(
                "args and kwargs are for modules; an exported program has its inputs' sizes already"
            )
        program, name = model, "exported program"
    else:
        program, name = _exported(model, args, kwargs or {}), type(model).__name__
    if any(_wraps(node) for node in program.graph.nodes):
        program = program.run_decompositions({})
    _refuse_open_dimensions(program, name)
    return program


def read_program(path: PathLike, limits: Limits = DEFAULT_LIMITS) -> ExportedProgram:
    """Read a program that ``torch.export.save`` wrote (``.pt2``); nothing in it is run.

    Raises
    ------
    InvalidInputError, LimitExceededError
        When torch is not installed, or the file is missing, too large, not an exported program, or could run code (see
        :mod:`opweave.adapters.torch.archive`).
    """
    where = plain(os.fspath(path))
    try:
        import torch
    except ImportError:
        raise InvalidInputError(
            f"{where}: reading .pt2 needs a package; to get it: pip install 'opweave[torch]'"
        ) from None
    log = logging.getLogger("torch.export")
    try:
        copy = harmless_copy(path, limits)
        log.disabled = True  # before it fails, torch writes a long message to standard error
        return torch.export.load(copy)
    except OpweaveError:
        raise
    except Exception as error:  # zipfile, pickle, JSON and torch have their own exception trees
        raise InvalidInputError(
            f"{where}: not a program that torch.export.save wrote ({reason(error)}); export and save it again"
        ) from None
    finally:
        log.disabled = False


def _wraps(node: Node) -> bool:
    """Whether a call only changes how the calls after it are meant."""
    made_in = str(getattr(node.target, "__module__", ""))
    return str(node.target).startswith(_WRAPPERS) or made_in.startswith(_FUNCTION_TRANSFORMS)


def reason(error: BaseException) -> str:
    """The first line of an error from another library, shortened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = plain(lines[0]).rstrip(".") if lines else type(error).__name__
    return text if len(text) <= 160 else text[:156] + " ..."


def advice(error: BaseException) -> str:
    """What to do about an error of torch, depending on its type."""
    names = [kind.__name__ for kind in type(error).__mro__]
    said = (row["advice"] for row in _TABLES["said"] if row["word"] in str(error))
    typed = (row["advice"] for row in _TABLES["typed"] if any(row["word"] in name for name in names))
    return next(said, None) or next(typed, _FALLBACK)


def title(node: Node) -> str:
    """Name a node for people, with its module if known."""
    module = module_path(node)
    return f"node {node.name!r} ({node.target}{f', in {module}' if module else ''})"


def module_path(node: Node) -> str:
    """Path of the innermost module whose forward made the node."""
    stack = node.meta.get("nn_module_stack") or {}
    return str(list(stack.values())[-1][0]).removeprefix("L['self']").lstrip(".") if stack else ""


def _exported(model: torch.nn.Module, args: Sequence[object], kwargs: Mapping[str, object]) -> ExportedProgram:
    import torch

    name = type(model).__name__
    if not isinstance(model, torch.nn.Module):
        raise InvalidInputError(f"a {name} is not a torch module; give a torch.nn.Module or a torch.export program")
    if isinstance(args, torch.Tensor):
        raise InvalidInputError(f"{name}: args is a tensor; write args=(tensor,), because it is a sequence of inputs")
    if not args and not kwargs:
        raise InvalidInputError(
            f"{name}: give example inputs, e.g. load(model, args=(torch.empty(1, 3, 224, 224, device='meta'),))"
        )
    if isinstance(model, torch.jit.ScriptModule):
        raise InvalidInputError(f"{name}: a model in TorchScript is not read; load the module from which it was made")
    try:
        where, (places, words) = _tensors_somewhere(model, (tuple(args), dict(kwargs)))
        hook = where.register_forward_hook(lambda _module, _inputs, made: plain_outputs(made))
        device = torch.device("cpu") if where is not model else nullcontext()
        with hook, torch.no_grad(), device, _quiet_failure():
            return torch.export.export(where, places, words, strict=False)
    except Exception as error:  # torch raises errors from many exception trees here
        place = _user_line(error)
        raise InvalidInputError(
            f"{name}: cannot be exported{f' at {place}' if place else ''} ({reason(error)}); {advice(error)}"
        ) from error


@contextmanager
def _quiet_failure() -> Iterator[None]:
    """Hold back standard error until the end: before it fails, torch prints its whole graph there."""
    held = io.StringIO()
    with redirect_stderr(held):
        yield
    sys.stderr.write(held.getvalue())


def _tensors_somewhere(model: torch.nn.Module, inputs: Any) -> tuple[torch.nn.Module, Any]:
    """The model and its inputs on one device; for models on the meta device, their twins on the CPU."""
    import torch
    from torch.utils._pytree import tree_map_only

    held = [*model.parameters(), *model.buffers()]
    if on_meta(held or tensors_in(inputs)):
        with fake_mode():
            return twin(model), faked(inputs)

    def moved(each: torch.Tensor) -> torch.Tensor:
        """An input on the meta device beside the weights; its values do not matter."""
        return torch.zeros_like(each, device=held[0].device) if each.device.type == "meta" else each

    return model, tree_map_only(torch.Tensor, moved, inputs)


def _user_line(error: BaseException) -> str:
    """File and line of the user's code that torch was following."""
    import torch

    own = os.path.dirname(torch.__file__)  # noqa: PTH120  # compared with names of files that may not be paths
    trace, found = error.__traceback__, ""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if trace.tb_frame.f_code.co_name == "forward" and not file.startswith(own):
            found = f"{os.path.basename(file)}, line {trace.tb_lineno}"  # noqa: PTH119  # it may not be a path at all
        trace = trace.tb_next
    return plain(found)


def _refuse_open_dimensions(program: ExportedProgram, name: str) -> None:
    import torch

    for node in program.graph.nodes:
        given = node.op == "placeholder"
        what = f"{name}: {f'input {node.name!r}' if given else title(node)}"
        for tensor in tensors_in(node.meta.get("val")):
            if tensor.layout != torch.strided:
                raise InvalidInputError(
                    f"{what} has layout {tensor.layout}, not one block of memory; use dense tensors"
                )
            for position, dim in enumerate(tensor.shape):
                if not isinstance(dim, int):
                    raise InvalidInputError(
                        f"{what} has an open dimension ({plain(str(dim))}, position {position}); "
                        f"{_OPEN_INPUT if given else _OPEN_RESULT}"
                    )
