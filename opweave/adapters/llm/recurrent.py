"""Recurrent layers, which keep a state of fixed size where attention keeps a cache that grows.

Three kinds share one shape: a convolution over the last tokens in front, whose inputs are kept, and a state of
several numbers for each channel. The gated delta rule (Qwen3-Next, Qwen3.5) and Mamba's state spaces have both; a short
convolution (LFM2) has no more than the inputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from opweave.adapters.llm.config import Config
from opweave.problems.language.model import Cache

STATE_BYTES = 4
"""Bytes of one number: llama.cpp keeps states in single precision, whatever the types of its caches."""

DELTA_FLOPS, SCAN_FLOPS = 7.0, 5.0
"""Operations for each number of a state and token. The gated delta rule decays the state (1), reads what it holds for
the key (2), adds the difference (2), and reads it for the query (2); Mamba decays (1), adds (2) and reads (2)."""


class Recurrence(NamedTuple):
    """The shape of a recurrent layer.

    Attributes
    ----------
    channels
        Channels that have a state; llama.cpp's ``ssm.inner_size``.
    states
        Numbers of the state for each channel; 0 for a convolution alone.
    convolved
        Channels of the convolution: ``channels``, and with them the keys and queries (the B and C of Mamba 2).
    kernel
        Tokens that the convolution spans.
    flops
        Operations for each number of the state and token.
    """

    channels: int
    states: int
    convolved: int
    kernel: int
    flops: float = SCAN_FLOPS

    def cache(self, beside: Cache) -> Cache:
        """The cache of a layer with this state, beside what its attention keeps.

        Examples
        --------
        Of Qwen3.5 9B, a linear layer keeps 32 heads of 128 by 128, and 3 tokens of 8,192 channels:

        >>> delta = Recurrence(channels=4096, states=128, convolved=8192, kernel=4, flops=DELTA_FLOPS)
        >>> delta.cache(Cache(key_width=0, value_width=0)).state_bytes
        2195456
        """
        state = self.channels * self.states
        return Cache(
            key_width=beside.key_width,
            value_width=beside.value_width,
            window=beside.window,
            flops=beside.flops,
            state_bytes=STATE_BYTES * (state + max(self.kernel - 1, 0) * self.convolved),
            state_flops=self.flops * state,
        )


NO_CACHE = Cache(key_width=0, value_width=0)
"""What a layer without attention keeps of each token."""


def recurrence_of(config: Config) -> Recurrence | None:
    """The shape of a configuration's recurrent layers; None if it has none."""
    kind, number = config.family.recurrent, config.number
    if kind == "delta":
        keys = number("linear_num_key_heads") * number("linear_key_head_dim")
        values = number("linear_num_value_heads") * number("linear_value_head_dim")
        states, kernel = number("linear_key_head_dim"), number("linear_conv_kernel_dim")
        return Recurrence(values, states, 2 * keys + values, kernel, DELTA_FLOPS)
    if kind == "mamba":
        inner = number("mamba_expand") * config.hidden
        return Recurrence(inner, number("mamba_d_state"), inner, number("mamba_d_conv"))
    if kind == "mamba2":
        inner, _, states, groups, kernel = _scan(config)
        return Recurrence(inner, states, inner + 2 * groups * states, kernel)
    return Recurrence(config.hidden, 0, config.hidden, number("conv_L_cache")) if kind == "conv" else None


def _scan(config: Config) -> tuple[int, int, int, int, int]:
    """Width, heads, numbers of state, groups and kernel of Mamba 2, which configurations name in three ways."""
    number = config.number
    if config.kind == "mamba2":
        words = ("num_heads", "state_size", "n_groups", "conv_kernel")
        inner = number("expand") * config.hidden
    elif config.kind == "nemotron_h":
        words = ("mamba_num_heads", "ssm_state_size", "n_groups", "conv_kernel")
        inner = number("mamba_num_heads") * number("mamba_head_dim")
    else:
        words = ("mamba_n_heads", "mamba_d_state", "mamba_n_groups", "mamba_d_conv")
        inner = number("mamba_d_ssm", number("mamba_expand") * config.hidden)
    heads, states, groups, kernel = map(number, words)
    return inner, heads, states, groups, kernel


def recurrent_tensors(config: Config) -> Iterator[tuple[int, ...]]:
    """Shapes of the tensors of a recurrent layer, without the norm of its input."""
    shape = recurrence_of(config)
    if shape is None:
        return
    hidden, inner, kind = config.hidden, shape.channels, config.family.recurrent
    yield shape.convolved, shape.kernel
    if kind == "delta":
        heads = config.number("linear_num_value_heads")
        for rows in (shape.convolved, inner, heads, heads):
            yield rows, hidden
        yield from ((hidden, inner), (heads,), (heads,), (config.number("linear_value_head_dim"),))
        return
    if _says(config, "conv_bias", "mamba_conv_bias", "use_conv_bias", usually=kind != "conv"):
        yield (shape.convolved,)
    if kind == "conv":
        rows, more = 3 * hidden, list[tuple[int, ...]]()
    elif kind == "mamba":
        steps = config.data.get("mamba_dt_rank", "auto")
        rank = -(-hidden // 16) if steps == "auto" else config.number("mamba_dt_rank")
        rows, states = 2 * inner, shape.states
        more = [(rank + 2 * states, inner), (inner, rank), (inner,), (inner, states), (inner,)]
        more += [(rank,), (states,), (states,)]
    else:
        heads = _scan(config)[1]
        normed = config.kind != "falcon_h1" or config.data.get("mamba_rms_norm") is True
        rows, more = inner + shape.convolved + heads, [*[(heads,)] * 3, *[(inner,)] * normed]
    yield from ((rows, hidden), (hidden, inner), *more)
    if _says(config, "conv_bias" if kind == "conv" else "mamba_proj_bias", "use_bias", usually=False):
        yield (rows,)
    outer = "projectors_bias" if config.kind == "falcon_h1" else "conv_bias" if kind == "conv" else "mamba_proj_bias"
    if _says(config, outer, "use_bias", usually=False):
        yield (hidden,)


def _says(config: Config, *words: str, usually: bool) -> bool:
    """Whether the first of some fields that is there is true."""
    return next((config.data[word] is True for word in words if config.data.get(word) is not None), usually)
