"""Language models from Hugging Face's ``config.json``: every tensor that the family has, and its bytes by type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import ceil, prod

from opweave.adapters.llm.assemble import assemble
from opweave.adapters.llm.families import FAMILIES, Config, Held
from opweave.problems.errors import InvalidInputError
from opweave.problems.language.model import MIXES, RUNTIMES, LanguageModel, Mix, number_type, row_bytes
from opweave.problems.words import instead_of

CONSTANTS = ("Infinity",)
"""What configurations have that JSON has not: the longest step of Mamba's clock."""

PLAIN_TYPES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "float64": "f64", "float8_e4m3fn": "f8"}
"""Types as PyTorch calls them."""

SHORT = 32
"""Rows below this length are those of convolutions over tokens, and of the decay of Mamba's states."""

NESTED = ("text_config", "llm_config", "language_config")
"""Where multimodal models have the configuration of their language model."""

OUTER = ("torch_dtype", "dtype", "quantization_config", "tie_word_embeddings")
"""What the configuration around it says for all parts."""


def from_config(data: Mapping[str, object], where: str, dtype: str | None = None) -> LanguageModel:
    """Describe a model by its configuration.

    Parameters
    ----------
    data
        The content of ``config.json``.
    where
        Name of the file in errors.
    dtype
        Type in which matrices are stored, such as ``"f16"`` or ``"q4_k"``, or the kind of a file, such as ``"Q4_K_M"``
        or ``"UD-Q4_K_XL"``; vectors, routers, convolutions and the biases of experts are then ``"f32"``, as llama.cpp
        keeps them, and experts that were trained in four bits stay so. None for the type that the configuration names.

    Raises
    ------
    InvalidInputError
        For an unknown architecture, fields that are missing or impossible, and quantised models whose sizes only
        their files tell.

    Examples
    --------
    >>> tiny = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4}
    >>> tiny |= {"num_hidden_layers": 2, "vocab_size": 1000, "torch_dtype": "float16", "max_position_embeddings": 2048}
    >>> model = from_config(tiny, "tiny")
    >>> model.elements, model.parameter_bytes
    (210240, 420480)
    """
    config = family_of(data, where)
    return assemble(config, _held(config, dtype), str(data.get("_name_or_path") or config.kind))


def family_of(data: Mapping[str, object], where: str) -> Config:
    """The family of a configuration; of a multimodal one, that of its language model.

    Raises
    ------
    InvalidInputError
        For an architecture that opweave does not know, and fields that are missing or impossible.
    """
    for word in NESTED:
        inner = data.get(word)
        if isinstance(inner, Mapping):
            outer = {word: data[word] for word in OUTER if word in data}
            data = {"model_type": f"{data.get('model_type')}_text", **outer, **inner}
    kind = data.get("model_type")
    if not isinstance(kind, str) or kind not in FAMILIES:
        near = instead_of(kind, FAMILIES, "opweave reads")
        raise InvalidInputError(
            f"{where}: model_type {kind!r:.60} is not known, but a GGUF file of it can be read{near}"
        )
    return Config(data, where, kind, kind)


def _held(config: Config, dtype: str | None) -> Iterator[Held]:
    chosen = None if dtype is None else _mix(dtype.lower())
    packed = None if chosen else _quantised(config)
    word = config.data.get("torch_dtype", config.data.get("dtype"))
    plain_type = PLAIN_TYPES.get(word, "bf16") if isinstance(word, str) else "bf16"
    for tensor in config.tensors():
        place, shape = tensor.place, tensor.shape
        single = place == "router" or (place == "experts" and len(shape) == 2) or shape[-1] < SHORT
        if len(shape) == 1 or (chosen and single):
            size = prod(shape) * number_type("f32" if chosen else plain_type).bytes
        elif chosen:
            size = _chosen_bytes(config, tensor, chosen)
        elif packed == "fp8" and place not in ("embedding", "head", "router"):
            size = _fp8_bytes(shape)
        else:
            block = packed == "mxfp4" and place == "experts" and len(shape) == 3
            size = _matrix_bytes(shape, "mxfp4" if block else plain_type)
        yield tensor._replace(bytes=size)


def _mix(name: str) -> Mix:
    if name in MIXES:
        return MIXES[name]
    kind = number_type(name)
    return Mix(name, name, 8.0 * kind.bytes / kind.numbers)


def _chosen_bytes(config: Config, tensor: Held, mix: Mix) -> int:
    """Bytes of a matrix in a file of a kind; a table that is the head, too, has the head's type."""
    place, shape, quantised = tensor.place, tensor.shape, number_type(mix.table).numbers > 1
    if place == "head" or (place == "embedding" and config.whole["tied"]):
        return _matrix_bytes(shape, mix.head)
    if place == "experts" and quantised and config.whole["packed"]:
        return _matrix_bytes(shape, str(config.whole["packed"]))
    if place == "embedding" or shape[-1] % number_type(mix.table).numbers:
        return _matrix_bytes(shape, mix.table)
    return ceil(prod(shape) * mix.bits / 8)


def _quantised(config: Config) -> str | None:
    given = config.data.get("quantization_config")
    if not isinstance(given, Mapping):
        return None
    method = given.get("quant_method")
    if method in ("fp8", "mxfp4"):
        return str(method)
    raise InvalidInputError(
        f"{config.where}: the model is quantised by {method!r:.40}, so only its files tell the sizes; read the "
        "folder with the .safetensors files, or say which type to plan with: dtype='q4_0'"
    )


def _matrix_bytes(shape: Sequence[int], name: str) -> int:
    """Bytes of a matrix; rows that the type's blocks do not divide are stored in another one, as llama.cpp does."""
    kinds = (name, RUNTIMES["fallback"].get(name, "f16"), "f16")
    fitting = next(kind for kind in kinds if shape[-1] % number_type(kind).numbers == 0)
    return prod(shape[:-1]) * row_bytes(shape[-1], fitting)


def _fp8_bytes(shape: Sequence[int]) -> int:
    """One byte for a number, and a scale in single precision for each square of 128 by 128."""
    squares = -(-shape[-2] // 128) * -(-shape[-1] // 128)
    return prod(shape) + 4 * prod(shape[:-2]) * squares
