"""What a runtime takes on each device beyond weights and caches: named rules, each with its source."""

from __future__ import annotations

from typing import NamedTuple

from opweave.problems.errors import InvalidInputError
from opweave.problems.language.model import LanguageModel
from opweave.problems.language.workload import LOGIT_BYTES, Workload
from opweave.problems.words import did_you_mean

MIB = 2**20


class Reserve(NamedTuple):
    """Bytes that stay free on a device.

    Attributes
    ----------
    bytes
        Whatever the model.
    token_bytes, from_tokens
        More for each token of context beyond these.
    outputs
        Whether the outputs of one batch are added: 4 bytes for each token and word, and the activation.
    source
        Where the numbers stand.
    """

    bytes: int
    token_bytes: float = 0.0
    from_tokens: int = 0
    outputs: bool = False
    source: str = ""


RESERVES = {
    "none": Reserve(0, source="weights and caches only"),
    "buffers": Reserve(
        320 * MIB,
        outputs=True,
        source="CUDA context of about 330 MiB (unslothai/unsloth pull request 6718), and the compute buffer that "
        "llama.cpp prints: 258.50 MiB for Llama-3-8B with 512 tokens at once, which is 512 x 4 x (128,256 + 4,096)",
    ),
    "fit": Reserve(1024 * MIB, source="llama.cpp, common/common.h: the margin of --fit for each device"),
    "unsloth": Reserve(
        1536 * MIB,
        token_bytes=23.4 * 1024,
        from_tokens=32_768,
        source="unslothai/unsloth pull request 9872",
    ),
}
"""Rules by name."""


def reserve_bytes(model: LanguageModel, work: Workload, rule: str = "buffers") -> int:
    """Bytes that a rule leaves free on each device.

    Raises
    ------
    InvalidInputError
        For an unknown rule.

    Examples
    --------
    >>> from opweave.problems.language.model import Cache, Layer, Weights
    >>> roles = ("attention", "embedding", "head")
    >>> attention, table, head = (Weights(role=role, bytes=8, elements=4) for role in roles)
    >>> model = LanguageModel(
    ...     name="llama 8B",
    ...     layers=[Layer(groups=[attention], cache=Cache(key_width=2, value_width=2))],
    ...     embedding=table,
    ...     head=head,
    ...     hidden_bytes=4 * 4096,
    ...     vocabulary=128_256,
    ... )
    >>> reserve_bytes(model, Workload(batch=512)) / 2**20 - 320
    258.5
    """
    found = RESERVES.get(rule)
    if found is None:
        raise InvalidInputError(
            f"no reserve is called {rule!r:.60}; there are: {', '.join(RESERVES)}{did_you_mean(rule, RESERVES)}"
        )
    tokens = max(work.context * work.sequences - found.from_tokens, 0)
    outputs = work.batch * (LOGIT_BYTES * model.vocabulary + model.hidden_bytes) if found.outputs else 0
    return found.bytes + round(found.token_bytes * tokens) + outputs
