"""Configurations of well-known models, and the numbers of parameters that they are known to have."""

from __future__ import annotations


def _llama(
    hidden: int, wide: int, heads: int, kept: int, layers: int, words: int, kind: str = "llama"
) -> dict[str, object]:
    return {
        "model_type": kind,
        "hidden_size": hidden,
        "intermediate_size": wide,
        "num_attention_heads": heads,
        "num_key_value_heads": kept,
        "num_hidden_layers": layers,
        "vocab_size": words,
        "max_position_embeddings": 32_768,
    }


_TIED = {"tie_word_embeddings": True}

CONFIGS: dict[str, tuple[dict[str, object], int]] = {
    "Meta-Llama-3-8B": (_llama(4096, 14336, 32, 8, 32, 128_256), 8_030_261_248),
    "Meta-Llama-3-70B": (_llama(8192, 28672, 64, 8, 80, 128_256), 70_553_706_496),
    "Mistral-7B-v0.1": (_llama(4096, 14336, 32, 8, 32, 32_000, "mistral") | {"sliding_window": 4096}, 7_241_732_096),
    "Qwen2-7B": (_llama(3584, 18944, 28, 4, 28, 152_064, "qwen2") | {"use_sliding_window": False}, 7_615_616_512),
    "Qwen3-8B": (_llama(4096, 12288, 32, 8, 36, 151_936, "qwen3") | {"head_dim": 128}, 8_190_735_360),
    "gemma-2-2b": (_llama(2304, 9216, 8, 4, 26, 256_000, "gemma2"), 2_614_341_888),
    "gemma-3-4b-it, text": (
        {
            "model_type": "gemma3",
            "text_config": {"hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34}
            | {"model_type": "gemma3_text", "sliding_window": 1024},
        },
        3_880_263_168,
    ),
    "phi-2": (_llama(2560, 10240, 32, 32, 32, 51_200, "phi"), 2_779_683_840),
    "Phi-3-mini-4k-instruct": (
        _llama(3072, 8192, 32, 32, 32, 32_064, "phi3") | {"sliding_window": 2047},
        3_821_079_552,
    ),
    "Mixtral-8x7B-v0.1": (
        _llama(4096, 14336, 32, 8, 32, 32_000, "mixtral")
        | {"num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": None},
        46_702_792_704,
    ),
    "Qwen1.5-MoE-A2.7B": (
        _llama(2048, 5632, 16, 16, 24, 151_936, "qwen2_moe") | {"num_experts": 60, "num_experts_per_tok": 4},
        14_315_784_192,
    ),
    "Qwen3-30B-A3B": (
        _llama(2048, 6144, 32, 4, 48, 151_936, "qwen3_moe")
        | {"head_dim": 128, "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8},
        30_532_122_624,
    ),
    "gpt-oss-20b": (
        _llama(2880, 2880, 64, 8, 24, 201_088, "gpt_oss")
        | {"num_local_experts": 32, "num_experts_per_tok": 4, "sliding_window": 128},
        20_914_757_184,
    ),
    "DeepSeek-V2-Lite": (
        _llama(2048, 10944, 16, 16, 27, 102_400, "deepseek_v2")
        | {"n_routed_experts": 64, "num_experts_per_tok": 6, "n_shared_experts": 2, "moe_intermediate_size": 1408}
        | {"first_k_dense_replace": 1, "q_lora_rank": None},
        15_706_484_224,
    ),
    "DeepSeek-V3, without its predictor of further tokens": (
        _llama(7168, 18432, 128, 128, 61, 129_280, "deepseek_v3")
        | {"n_routed_experts": 256, "num_experts_per_tok": 8, "n_shared_experts": 1, "moe_intermediate_size": 2048}
        | {"first_k_dense_replace": 3},
        671_026_419_200,
    ),
    "TinyLlama-1.1B": (_llama(2048, 5632, 32, 4, 22, 32_000), 1_100_048_384),
    "Llama-3.2-1B": (_llama(2048, 8192, 32, 8, 16, 128_256) | _TIED, 1_235_814_400),
    "Llama-3.2-3B": (_llama(3072, 8192, 24, 8, 28, 128_256) | _TIED, 3_212_749_824),
    "Mistral-Nemo-Base-2407": (_llama(5120, 14336, 32, 8, 40, 131_072, "mistral") | {"head_dim": 128}, 12_247_782_400),
    "Qwen2.5-0.5B": (_llama(896, 4864, 14, 2, 24, 151_936, "qwen2") | _TIED, 494_032_768),
    "Qwen3-0.6B": (_llama(1024, 3072, 16, 8, 28, 151_936, "qwen3") | _TIED | {"head_dim": 128}, 596_049_920),
    "Qwen3-4B": (_llama(2560, 9728, 32, 8, 36, 151_936, "qwen3") | _TIED | {"head_dim": 128}, 4_022_468_096),
    "gemma-2-9b": (_llama(3584, 14336, 16, 8, 42, 256_000, "gemma2"), 9_241_705_984),
    "gemma-2-27b": (_llama(4608, 36864, 32, 16, 46, 256_000, "gemma2") | {"head_dim": 128}, 27_227_128_320),
    "phi-4": (_llama(5120, 17920, 40, 10, 40, 100_352, "phi3"), 14_659_507_200),
    "gpt-oss-120b": (
        _llama(2880, 2880, 64, 8, 36, 201_088, "gpt_oss")
        | {"num_local_experts": 128, "num_experts_per_tok": 4, "sliding_window": 128},
        116_829_156_672,
    ),
    "Qwen3-235B-A22B": (
        _llama(4096, 12288, 64, 4, 94, 151_936, "qwen3_moe")
        | {"head_dim": 128, "moe_intermediate_size": 1536, "num_experts": 128, "num_experts_per_tok": 8},
        235_093_634_560,
    ),
}

_DELTA: dict[str, object] = {"model_type": "qwen3_5_text", "vocab_size": 248_320, "max_position_embeddings": 262_144}
_GRANITE = _llama(1536, 512, 12, 4, 40, 100_352, "granitemoehybrid") | _TIED | {"mamba_n_heads": 48}
_GRANITE |= {"mamba_d_state": 128, "shared_intermediate_size": 1024}
_GRANITE |= {"layer_types": ["attention" if n % 10 == 5 else "mamba" for n in range(40)]}
_NANO = "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"
_LFM = ["full_attention" if n in (2, 5, 8, 10, 12, 14) else "conv" for n in range(16)]
_LFM_MOE = ["full_attention" if n in (2, 6, 10, 14, 18, 21) else "conv" for n in range(24)]

HYBRIDS: dict[str, tuple[dict[str, object], int]] = {
    "Qwen3-Next-80B-A3B, without its predictor of further tokens": (
        _llama(2048, 5632, 16, 2, 48, 151_936, "qwen3_next") | {"num_experts": 512, "num_experts_per_tok": 10},
        79_674_391_296,
    ),
    "Qwen3.5-9B, text": (_llama(4096, 12288, 16, 4, 32, 248_320) | _DELTA, 8_953_803_264),
    "Qwen3.5-27B, text": (
        _llama(5120, 17408, 24, 4, 64, 248_320) | _DELTA | {"linear_num_value_heads": 48},
        26_895_998_464,
    ),
    "Qwen3.5-35B-A3B, text": (
        _llama(2048, 512, 16, 2, 40, 248_320)
        | _DELTA
        | {"model_type": "qwen3_5_moe_text", "num_experts": 256, "num_experts_per_tok": 8},
        34_660_610_688,
    ),
    "Jamba-v0.1": (
        _llama(4096, 14336, 32, 8, 32, 65_536, "jamba") | {"num_experts": 16, "num_experts_per_tok": 2},
        51_570_323_328,
    ),
    "granite-4.0-h-tiny": (_GRANITE | {"num_local_experts": 64, "num_experts_per_tok": 6}, 6_939_037_248),
    "granite-4.0-h-micro": (
        _GRANITE
        | {"hidden_size": 2048, "num_attention_heads": 32, "num_key_value_heads": 8, "mamba_n_heads": 64}
        | {"num_local_experts": 0, "shared_intermediate_size": 8192},
        3_191_396_096,
    ),
    "a Falcon-H1 of 1.5 billion": (
        _llama(2048, 4096, 8, 2, 24, 65_537, "falcon_h1") | {"head_dim": 128, "mamba_d_ssm": 3072, "mamba_n_heads": 48},
        1_479_292_288,
    ),
    "a Mamba 2 of 7 billion": (
        {"model_type": "mamba2", "hidden_size": 4096, "num_hidden_layers": 64, "vocab_size": 32_768},
        7_285_403_648,
    ),
    "NVIDIA-Nemotron-3-Nano-30B-A3B": (
        _llama(2688, 1856, 32, 2, 52, 131_072, "nemotron_h")
        | {"hybrid_override_pattern": _NANO, "mamba_num_heads": 64, "n_routed_experts": 128, "num_experts_per_tok": 6}
        | {"moe_intermediate_size": 1856, "moe_shared_expert_intermediate_size": 3712},
        31_577_940_288,
    ),
    "LFM2-1.2B": (
        _llama(2048, 12288, 32, 8, 16, 65_536, "lfm2") | {"layer_types": _LFM},
        1_170_340_608,
    ),
    "LFM2-8B-A1B": (
        _llama(2048, 7168, 32, 8, 24, 65_536, "lfm2_moe")
        | {"layer_types": _LFM_MOE, "num_experts": 32, "num_experts_per_tok": 4, "moe_intermediate_size": 1792},
        8_339_930_560,
    ),
}
"""Models with recurrent layers; the numbers are those of the classes in ``transformers`` 5.23 with these settings."""

CONFIGS |= HYBRIDS

FILES = (
    ("Meta-Llama-3-8B", "f16", "f16", 14.96),
    ("Meta-Llama-3-8B", "q8_0", "q8_0", 7.95),
    ("Meta-Llama-3-8B", "q4_0", "q6_k", 4.33),
    ("Qwen2-7B", "q8_0", "q8_0", 7.54),
    ("Mixtral-8x7B-v0.1", "q8_0", "q8_0", 46.22),
    ("Qwen3-30B-A3B", "q8_0", "q8_0", 30.25),
)
"""Model, type of its matrices and of the head's, and GiB of the GGUF file as llama.cpp prints them."""
