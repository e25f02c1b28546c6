"""Small models of 60 architectures of ``transformers``, made from their configuration classes on the meta device.

No weight is read or downloaded. Every model has two or three layers; other sizes are those of the configuration class.
Models get the inputs of their kind and nothing else, so that they keep their own defaults (caches among them).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import opweave as ow
from benchmarks.models.torchvision_operators import stand_in

if TYPE_CHECKING:
    import torch

TOKENS = 32
"""Length of the sequences of tokens."""

KINDS = """
    albert bert roberta distilbert electra deberta-v2 modernbert mpnet xlnet fnet convbert
    gpt2 gpt_neo gpt_neox gptj opt bloom falcon llama mistral qwen2 qwen3 gemma gemma2 gemma3_text phi3 olmo2 stablelm
    starcoder2 cohere mamba
    mixtral qwen2_moe qwen3_moe gpt_oss olmoe deepseek_v3 granitemoe
    t5 bart pegasus m2m_100
    vit beit swin convnextv2 dinov2 segformer mobilevit resnet efficientnet detr yolos
    wav2vec2 hubert wavlm whisper audio-spectrogram-transformer
    clip llava
"""
"""Encoders and decoders of text, mixtures of experts, translation, vision, speech, pairs of text and images."""

MORE = """
    mamba2 falcon_mamba jamba bamba recurrent_gemma rwkv falcon_h1 qwen3_next lfm2
    jetmoe phimoe glm4_moe minimax llama4_text deepseek_v2 ernie4_5_moe
    longt5 umt5 led blenderbot nllb-moe switch_transformers fsmt marian
    longformer big_bird funnel ibert mobilebert roformer reformer xlm canine perceiver tapas layoutlmv3 lxmert
    qwen2_vl qwen2_5_vl idefics3 paligemma pixtral blip blip-2 git siglip2 owlvit flava kosmos-2 llava_next gemma3 vilt
    groupvit align
    sew unispeech-sat speech_to_text speecht5 encodec dac musicgen clap seamless_m4t moonshine vits univnet
    wav2vec2-bert
    levit pvt_v2 regnet hiera mobilenet_v2 swinv2 videomae vit_mae dpt mask2former deformable_detr rt_detr sam
    superpoint
    dinov3_vit
    time_series_transformer autoformer patchtst timesfm decision_transformer esm gemma3n_text olmo3 phi ctrl gpt_bigcode
    bitnet diffllama mpt imagegpt
"""
"""Others, chosen before any of them was tried: state spaces, experts, long texts, pairs, sound, images, series."""

DEPTHS = (
    "num_hidden_layers",
    "n_layer",
    "n_layers",
    "num_layers",
    "encoder_layers",
    "decoder_layers",
    "num_decoder_layers",
    "num_encoder_layers",
)
"""Fields that count layers; a configuration that has one gets two layers."""

ROWS: Mapping[str, Mapping[str, object]] = {
    "albert": {"num_hidden_layers": 3},
    "gpt_neo": {"num_layers": 2, "attention_types": [[["global", "local"], 1]]},
    "deepseek_v3": {"num_hidden_layers": 3, "first_k_dense_replace": 1},
    "llava": {
        "vision_config": {"model_type": "clip_vision_model", "num_hidden_layers": 2},
        "text_config": {"model_type": "llama", "num_hidden_layers": 2},
    },
    "clip": {"vision_config": {"num_hidden_layers": 2}, "text_config": {"num_hidden_layers": 2}},
    "jamba": {"num_hidden_layers": 4, "attn_layer_period": 2, "attn_layer_offset": 1},
    "bamba": {"num_hidden_layers": 2, "attn_layer_indices": [1]},
    "recurrent_gemma": {"num_hidden_layers": 3},
    "qwen3_next": {"num_hidden_layers": 4},
    "deepseek_v2": {"num_hidden_layers": 2, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1},
    "detr": {"use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None},
}
"""Other settings by kind, where the defaults lead to a download or to sizes that do not fit two layers."""


def transformer_cases() -> Iterator[tuple[str, Callable[[], ow.OpGraph]]]:
    """Yield the name and the loader of each architecture."""
    stand_in()  # transformers imports torchvision where it is installed
    for kind in KINDS.split():
        yield kind, partial(load_kind, kind)


def more_cases() -> Iterator[tuple[str, Callable[[], ow.OpGraph]]]:
    """Yield the name and the loader of each of the others."""
    stand_in()
    for kind in MORE.split():
        yield kind, partial(load_kind, kind)


def load_kind(kind: str) -> ow.OpGraph:
    """Build a small model of an architecture and load its graph."""
    import torch
    from transformers import AutoModel

    config = small_config(kind)
    with torch.device("meta"):
        model = AutoModel.from_config(config).eval()
        return ow.load(model, kwargs=example_inputs(model))


def small_config(kind: str) -> Any:
    """Make a configuration with few layers."""
    from transformers import AutoConfig

    special = dict(ROWS.get(kind, {}))
    usual = AutoConfig.for_model(kind, **special)
    depths = {name: 2 for name in DEPTHS if name in dir(usual)}
    try:
        return AutoConfig.for_model(kind, **depths | special)
    except Exception:  # depths that must fit another list of settings
        return usual


def example_inputs(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Make the inputs that a model takes, by the names of its forward's parameters."""
    import inspect

    import torch

    config: Any = model.config
    words = inspect.signature(model.forward).parameters
    given = {}
    if "input_ids" in words:
        given["input_ids"] = torch.ones(1, TOKENS, dtype=torch.long)
    if config.model_type in ("longt5", "switch_transformers"):  # they make none while they are exported
        given["attention_mask"] = torch.ones(1, TOKENS)
    if "decoder_input_ids" in words:
        given["decoder_input_ids"] = torch.ones(1, TOKENS, dtype=torch.long)
    if "pixel_values" in words:
        vision = getattr(config, "vision_config", config)
        size = getattr(vision, "image_size", 224)
        high, wide = (size, size) if isinstance(size, int) else size
        given["pixel_values"] = torch.zeros(1, getattr(vision, "num_channels", 3), high, wide)
    if "visual_feats" in words:
        given["visual_feats"] = torch.zeros(1, TOKENS, config.visual_feat_dim)
        given["visual_pos"] = torch.zeros(1, TOKENS, 4)
    if "inputs" in words and not given:
        given["inputs"] = torch.zeros(1, TOKENS, config.d_model)
    if "input_features" in words:
        given["input_features"] = torch.zeros(1, config.num_mel_bins, 2 * config.max_source_positions)
    elif "input_values" in words:
        shape = (1, 16_000) if hasattr(config, "conv_kernel") else (1, config.max_length, config.num_mel_bins)
        given["input_values"] = torch.zeros(shape)
    return given
