"""Model folders made on the spot: tiny random models with real tokenizers of the common kinds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import headscope
from architectures import peaked

TEXTS = [passage["text"] for passage in headscope.passages()] + [
    "Über die Brücke, sagte sie, führt kein Weg zurück. Ça va? Ñandú! Привет, мир. שלום עולם. 你好，世界。",
    "emoji 😀 👩‍👩‍👧 zero\u200bwidth don't $5.00 ½ — “quoted” …",
]
SPECIALS = ["<pad>", "<s>", "</s>", "<unk>", "<mask>"]
SIZE = 1000


def byte_level(start: bool, longest: int = 256) -> Any:
    """GPT-2's kind: bytes, a space before a word is part of its token. Adds nothing, or <s> and </s> (RoBERTa)."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=SIZE, special_tokens=SPECIALS, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    if start:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 1), ("</s>", 2)]
        )
    else:
        tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return wrapped(tokenizer, longest)


def sentence_piece(kind: str) -> Any:
    """Metaspace with byte fallback and <s> (Llama's kind), or unigram with </s> (T5's kind)."""
    if kind == "llama":
        tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
        extra = [f"<0x{byte:02X}>" for byte in range(256)]
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        tokenizer.decoder = decoders.Sequence([
            decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0),
        ])  # fmt: skip
        trainer: Any = trainers.BpeTrainer(vocab_size=SIZE, special_tokens=SPECIALS + extra, show_progress=False,
                                           max_token_length=8)  # fmt: skip
        template, pair, special = "<s> $A", "<s> $A <s> $B", [("<s>", 1)]
    else:
        tokenizer = Tokenizer(models.Unigram())
        tokenizer.normalizer = normalizers.NFKC()
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        tokenizer.decoder = decoders.Metaspace()
        trainer = trainers.UnigramTrainer(
            vocab_size=SIZE, special_tokens=SPECIALS, unk_token="<unk>", show_progress=False
        )
        template, pair, special = "$A </s>", "$A </s> $B </s>", [("</s>", 2)]
    tokenizer.train_from_iterator(TEXTS, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single=template, pair=pair, special_tokens=special)
    return wrapped(tokenizer)


def wrapped(tokenizer: Tokenizer, longest: int = 256) -> Any:
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>",
        mask_token="<mask>", model_max_length=longest,
    )  # fmt: skip


SHAPE: dict[str, Any] = {
    "vocab_size": SIZE + 300, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4,
    "intermediate_size": 48, "max_position_embeddings": 256, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
KINDS: dict[str, tuple[str, dict[str, Any], Any]] = {
    "gpt2": ("gpt2", {"vocab_size": SIZE + 300, "n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 256},
             lambda: byte_level(start=False)),
    "long": ("gpt2", {"vocab_size": SIZE + 300, "n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 2048},
             lambda: byte_level(start=False, longest=2048)),
    "roberta": ("roberta", SHAPE | {"max_position_embeddings": 257}, lambda: byte_level(start=True)),
    "llama": ("llama", SHAPE | {"num_key_value_heads": 2}, lambda: sentence_piece("llama")),
    "llama-no-start": ("llama", SHAPE | {"num_key_value_heads": 2}, lambda: byte_level(start=False)),
    "mpnet": ("mpnet", SHAPE | {"max_position_embeddings": 257}, lambda: byte_level(start=True)),
    "distilbert": ("distilbert", {"vocab_size": SIZE + 300, "dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 48,
                                  "max_position_embeddings": 256}, lambda: byte_level(start=True)),
    "mistral": ("mistral", SHAPE | {"num_key_value_heads": 2, "sliding_window": 6}, lambda: sentence_piece("llama")),
    "t5": ("t5", {"vocab_size": SIZE + 300, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 3,
                  "num_decoder_layers": 2, "num_heads": 4, "decoder_start_token_id": 0, "pad_token_id": 0},
           lambda: sentence_piece("t5")),
}  # fmt: skip


def make_folder(kind: str, folder: Path) -> Path:
    """Write a model folder as a user would have it: config.json, model.safetensors, tokenizer.json."""
    name, settings, tokenizer = KINDS[kind]
    torch.manual_seed(3)
    config = transformers.AutoConfig.for_model(name, **settings)
    peaked(transformers.AutoModel.from_config(config).eval(), scaled=name != "t5").save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder
