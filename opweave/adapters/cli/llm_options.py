"""The options of ``opweave llm``, declared once as the fields of :class:`Wishes`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from opweave.problems.errors import InvalidInputError

MAX = "max"
"""The context that stands for the longest one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What is asked of a language model; every field is an option of the command line."""

    devices: Annotated[
        str,
        typer.Option(
            "--devices", "-d", help="A rig or a cluster as JSON, a cluster by name, or here.", show_default=False
        ),
    ]
    context: Annotated[str, typer.Option("--context", "-c", help="Tokens of context, or max.")] = "4096"
    phase: Annotated[str, typer.Option("--phase", help="decode, or prefill (reading a prompt).")] = "decode"
    sequences: Annotated[int, typer.Option("--sequences", min=1, help="Requests at the same time.")] = 1
    batch: Annotated[int, typer.Option("--batch", min=1, help="Tokens of a prompt that are read at once.")] = 512
    keys: Annotated[str, typer.Option("--keys", help="Type of the cached keys.")] = "f16"
    values: Annotated[str, typer.Option("--values", help="Type of the cached values.")] = "f16"
    dtype: Annotated[str | None, typer.Option("--dtype", help="For config.json: type of the matrices.")] = None
    host: Annotated[str | None, typer.Option("--host", help="Device that is the processor with its memory.")] = None
    reserve: Annotated[
        str | None, typer.Option("--reserve", help="Left free on every device: 1GiB, or buffers, fit, unsloth, none.")
    ] = None
    slowest: Annotated[
        float | None, typer.Option("--slowest", help="With --context max: most seconds for a token.")
    ] = None
    layers: Annotated[
        str, typer.Option("--layers", help="Layers whole, split (parts in host memory, too), or free (anywhere).")
    ] = "split"
    machines: Annotated[bool, typer.Option("--machines", help="Compare the sets of machines, too.")] = False

    def check(self) -> None:
        """Refuse words that no option has, and options that lack another one.

        Raises
        ------
        InvalidInputError
            Names the option.
        """
        if self.phase not in ("decode", "prefill"):
            raise InvalidInputError(f"--phase {self.phase!r:.40}: it is decode or prefill")
        if self.layers not in ("whole", "split", "free"):
            raise InvalidInputError(f"--layers {self.layers!r:.40}: it is whole, split or free")
        if self.slowest is not None and self.context != MAX:
            raise InvalidInputError("--slowest asks for the longest context at that speed; add --context max")
