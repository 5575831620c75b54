"""The architectures headscope is tested on, as tiny random models, and the table of them for the documentation.

`python tests/architectures.py` writes docs/architectures.md; the tests fail when that file is out of date.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers

from headscope.models.check import Report, self_check
from headscope.models.forward import Batch, collate, pad_token

LENGTHS = (17, 9, 12)  # ragged, so that two of three windows are padded

ENCODER: dict[str, Any] = {
    "vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 48,
    "max_position_embeddings": 64,
}  # fmt: skip
AFTER_PADDING = ENCODER | {"pad_token_id": 1}  # positions are counted from the padding index on
GROUPED = ENCODER | {"num_key_value_heads": 2, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
SLIDING = GROUPED | {"head_dim": 8, "sliding_window": 5}
GPT: dict[str, Any] = {
    "vocab_size": 64, "n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 64, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
T5: dict[str, Any] = {
    "vocab_size": 64, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 3, "num_decoder_layers": 2, "num_heads": 4,
    "decoder_start_token_id": 0, "pad_token_id": 0,
}  # fmt: skip
BART: dict[str, Any] = {
    "vocab_size": 64, "d_model": 32, "encoder_layers": 3, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_position_embeddings": 64,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2,
}  # fmt: skip
ENDS = {"bos_token_id": 1, "eos_token_id": 2}


@dataclass(frozen=True)
class Architecture:
    """A model type of transformers with a tiny configuration; `limits` is what a user ought to know about it."""

    kind: str
    settings: dict[str, Any]
    family: str
    limits: str = ""
    stacks: dict[str, int] = field(default_factory=dict)  # layers by stack

    def model(self) -> Any:
        """The model with random weights, scaled so that attention is peaked."""
        torch.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            config = transformers.AutoConfig.for_model(self.kind, **self.settings)
            model = transformers.AutoModel.from_config(config, attn_implementation="eager").eval().float()
        return peaked(model, scaled=self.settings is not T5)

    def batch(self, model: Any) -> Batch:
        generator = torch.Generator().manual_seed(1)
        windows = [torch.randint(5, 60, (length,), generator=generator).tolist() for length in LENGTHS]
        return collate(windows, pad_token(model.config), "cpu")

    def report(self) -> Report:
        model = self.model()
        return self_check(model, self.batch(model))


def peaked(model: Any, scaled: bool = True) -> Any:
    """Draw every matrix anew, wide enough that heads attend to few tokens: even attention hides mistakes."""
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim < 2:
                if is_query_or_key(name) and "norm" in name:  # what is normalised is widened after the norm
                    weight.fill_(2.0)
                continue
            # A model that does not divide scores by √d is as peaked with narrower queries and keys.
            wide = 1.0 if not is_query_or_key(name) else 2.2 if scaled else 0.9
            weight.copy_(torch.randn(weight.shape, generator=generator) * wide * weight.shape[-1] ** -0.5)
        for module in model.modules():
            if isinstance(module, torch.nn.Embedding) and module.padding_idx is not None:
                module.weight[module.padding_idx] = 0  # as in every trained model
    return model


def is_query_or_key(name: str) -> bool:
    parts = ("query", "key", "q_proj", "k_proj", "qkv", "c_attn", "q_lin", "k_lin", "q_norm", "k_norm", "q_b_proj")
    last = name.split(".")[-2:][0]
    return last in ("q", "k") or any(part in last for part in parts)


def bert(kind: str, settings: dict[str, Any] = ENCODER, limits: str = "", layers: int = 3) -> Architecture:
    return Architecture(kind, settings, "BERT family", limits, {"encoder": layers})


def gpt(kind: str, settings: dict[str, Any] = GROUPED, limits: str = "", layers: int = 3) -> Architecture:
    return Architecture(kind, settings, "decoder", limits, {"decoder": layers})


def both(kind: str, settings: dict[str, Any] = BART, limits: str = "") -> Architecture:
    return Architecture(kind, settings, "encoder-decoder", limits, {"encoder": 3, "decoder": 2, "cross": 2})


ARCHITECTURES = [
    bert("bert"),
    bert("roberta", AFTER_PADDING),
    bert("xlm-roberta", AFTER_PADDING),
    bert("camembert", AFTER_PADDING),
    bert("distilbert", {"vocab_size": 64, "dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 48,
                        "max_position_embeddings": 64}),
    bert("albert", ENCODER | {"embedding_size": 16, "num_hidden_groups": 1}, "layers share one module"),
    bert("electra", ENCODER | {"embedding_size": 16}),
    bert("mpnet", AFTER_PADDING),
    bert("deberta-v2", ENCODER | {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 8,
                                  "max_relative_positions": 16}),
    bert("modernbert", ENCODER | ENDS | {"local_attention": 6, "global_attn_every_n_layers": 2, "pad_token_id": 0,
                                         "cls_token_id": 1, "sep_token_id": 2}, "local layers read part of the window"),
    bert("nomic_bert"),
    bert("mobilebert", ENCODER | {"embedding_size": 16, "true_hidden_size": 16, "intra_bottleneck_size": 16}),
    bert("eurobert", GROUPED),
    bert("esm", AFTER_PADDING | {"mask_token_id": 3}),
    bert("ernie"),
    bert("data2vec-text", AFTER_PADDING),
    bert("megatron-bert"),
    bert("roformer"),
    bert("rembert", ENCODER | {"input_embedding_size": 16}),
    bert("xlm", {"vocab_size": 64, "emb_dim": 32, "n_layers": 3, "n_heads": 4, "max_position_embeddings": 64}),
    gpt("gpt2", GPT),
    gpt("gpt_neo", {"vocab_size": 64, "hidden_size": 32, "num_layers": 3, "num_heads": 4, "window_size": 5,
                    "attention_types": [[["global", "local", "global"], 1]], "max_position_embeddings": 64} | ENDS),
    gpt("gpt_neox", ENCODER | ENDS),
    gpt("gptj", GPT | {"rotary_dim": 4}),
    gpt("opt", AFTER_PADDING | {"ffn_dim": 48, "word_embed_proj_dim": 32}),
    gpt("bloom", {"vocab_size": 64, "hidden_size": 32, "n_layer": 3, "n_head": 4, "pad_token_id": 3} | ENDS),
    gpt("falcon", {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4} | ENDS,
        "multi-query: heads share one value"),
    gpt("mpt", {"vocab_size": 64, "d_model": 32, "n_layers": 3, "n_heads": 4, "max_seq_len": 64}),
    gpt("openai-gpt", GPT),
    gpt("llama"),
    gpt("mistral", GROUPED | {"sliding_window": 5}),
    gpt("mixtral", GROUPED | {"num_local_experts": 4, "sliding_window": None}),
    gpt("qwen2"),
    gpt("qwen3", GROUPED | {"head_dim": 8}),
    gpt("qwen3_next", GROUPED | {
        "head_dim": 8, "num_experts": 4, "num_experts_per_tok": 2, "linear_num_value_heads": 4,
        "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8, "moe_intermediate_size": 16,
        "shared_expert_intermediate_size": 16,
        "layer_types": ["linear_attention", "full_attention", "full_attention"],
    }, "gated: O before the gate; layers of linear attention have no map and are not numbered", layers=2),
    gpt("gemma2", SLIDING | {"query_pre_attn_scalar": 8}),
    gpt("gemma3_text", SLIDING | {"query_pre_attn_scalar": 8}),
    gpt("phi3"),
    gpt("phi"),
    gpt("olmo2"),
    gpt("gpt_oss", SLIDING | {"num_local_experts": 4, "num_experts_per_tok": 2},
        "attention sink: rows of A sum to less than one"),
    gpt("stablelm"),
    gpt("cohere"),
    gpt("granite"),
    gpt("starcoder2"),
    gpt("smollm3"),
    gpt("deepseek_v3", GROUPED | {
        "num_key_value_heads": 4, "q_lora_rank": 8, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 4,
        "v_head_dim": 6, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1,
        "moe_intermediate_size": 16, "first_k_dense_replace": 1,
    }),
    both("t5", T5),
    both("mt5", T5),
    both("umt5", T5),
    both("bart"),
    both("mbart"),
    both("marian"),
    both("pegasus"),
    both("m2m_100"),
]  # fmt: skip

# Architectures that are refused, and why.
UNSUPPORTED = {
    "xlnet": ({"vocab_size": 64, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48},
              "multiplies with einsum over tokens in another order"),
    "longformer": (AFTER_PADDING | {"attention_window": 4}, "windowed attention never forms A"),
    "led": (BART, "its encoder is Longformer's"),
    "squeezebert": (ENCODER | {"embedding_size": 32}, "projects with convolutions, which the check cannot compare"),
    "mamba": ({"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 4}, "has no attention"),
    "convbert": (ENCODER, "half of its heads are convolutions"),
    "prophetnet": ({"vocab_size": 64, "hidden_size": 32, "num_encoder_layers": 2, "num_decoder_layers": 2,
                    "num_encoder_attention_heads": 4, "num_decoder_attention_heads": 4, "encoder_ffn_dim": 48,
                    "decoder_ffn_dim": 48, "max_position_embeddings": 64}, "predicts several streams at once"),
}  # fmt: skip

# ---------------------------------------------------------------------- the table in docs/

HEADER = """# Architectures

Made by `python tests/architectures.py` from the test matrix; the tests fail when it is out of date. Each row is a tiny
random model with peaked attention, run on a padded, ragged batch in float32. Every equality holds within 1e-5 of the
largest |O|:

- **layers, heads**: their numbers are those that the configuration declares, each stack over its own tokens;
- **O = A·V**: and V, seen on its own, is what a projection put out before the attention call;
- **projection**: O is what the output projection is given (— where the model gates it first);
- **rows**: the rows of A sum to one (≤ 1 with a sink), and are zero where a token may not read;
- **padded**: a text in a padded batch gives what it gives alone;
- **A**: the weights equal those that the model itself returns with `output_attentions=True` (— where it returns none
  in a form that can be compared).

Route `interface`: through transformers' attention interface. Route `fallback`: by following the softmax of each layer
to the product with the values; it needs eager attention, which headscope loads every model with.

An architecture that is not listed may well work: `headscope check MODEL` tells. A model that cannot be read is refused
by name when it is loaded.

| architecture | kind | route | stacks | layers, heads | O = A·V | projection | rows | padded | A | known limits |
|---|---|---|---|---|---|---|---|---|---|---|
"""


def row(architecture: Architecture, report: Report, maps: bool) -> str:
    def mark(*names: str) -> str:
        found = [check.passed for check in report.checks if any(name in check.name for name in names)]
        return "✗" if False in found else "—" if None in found else "✓"

    stacks = ", ".join(report.stacks)
    marks = [
        mark("captured", "its own tokens"),
        mark("A·V", "V = output"),
        mark("output projection"),
        mark("rows", "read what"),
        mark("padded"),
    ]
    cells = [architecture.kind, architecture.family, report.route, stacks, *marks, "✓" if maps else "—"]
    return "| " + " | ".join([*cells, architecture.limits]) + " |"


def own_maps_agree(architecture: Architecture) -> bool | None:
    """Whether A equals what the model returns itself; None where it returns nothing comparable."""
    from headscope.tap import tap

    model = architecture.model()
    batch = architecture.batch(model)
    with torch.no_grad(), tap(model, weights=True) as tapped:
        inputs = {"input_ids": batch.ids, "attention_mask": batch.mask}
        if model.config.is_encoder_decoder:
            inputs |= {"decoder_input_ids": batch.ids, "decoder_attention_mask": batch.mask}
        returned = model(**inputs, output_attentions=True)
    names = {"encoder": "encoder_attentions", "decoder": "decoder_attentions", "cross": "cross_attentions"}
    for stack in architecture.stacks:
        maps = returned.get(names[stack] if model.config.is_encoder_decoder else "attentions")
        seen = [heads for heads in tapped if heads.stack == stack]
        maps = [m for m in maps or () if m is not None]
        if len(maps) != len(seen) or any(m.shape != heads.weights.shape for m, heads in zip(maps, seen, strict=True)):
            return None
        for m, heads in zip(maps, seen, strict=True):
            for row_, length in enumerate(batch.lengths):
                if not torch.equal(m[row_, :, :length], heads.weights[row_, :, :length]):
                    return False
    return True


def table() -> str:
    rows = [row(a, a.report(), own_maps_agree(a) is True) for a in ARCHITECTURES]
    refused = "\n".join(f"| {kind} | {why} |" for kind, (_, why) in UNSUPPORTED.items())
    return HEADER + "\n".join(rows) + "\n\nRefused by name:\n\n| architecture | why |\n|---|---|\n" + refused + "\n"


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    target = Path(__file__).parents[1] / "docs" / "architectures.md"
    target.write_text(table(), encoding="utf-8")
    print(f"wrote {target}", file=sys.stderr)
