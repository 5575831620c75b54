"""The BERT that is trained, and its export to a folder that transformers loads as BertForMaskedLM.

The computation is that of BertForMaskedLM: post-LN, exact GELU, output matrix tied to the word embeddings.
It is written out here for speed: one matrix product gives query, key and value, activations are bf16 while
weights stay float32, and only the masked places reach the vocabulary-sized output layer.

Shapes: B sequences, T tokens each, H heads of d values, D = H * d the hidden size, P masked places, V pieces.
"""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional

from conventions import WINDOW

LAYERS = 12
HEADS = 12
EPSILON = 1e-12
INITIAL_DEVIATION = 0.02
TOKENIZER_FILES = ("vocab.txt", "tokenizer.json", "tokenizer_config.json")


class Layer(nn.Module):
    """The weights of one transformer layer."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.qkv = nn.Linear(hidden, 3 * hidden)
        self.attention_output = nn.Linear(hidden, hidden)
        self.attention_norm = nn.LayerNorm(hidden, eps=EPSILON)
        self.intermediate = nn.Linear(hidden, 4 * hidden)
        self.output = nn.Linear(4 * hidden, hidden)
        self.norm = nn.LayerNorm(hidden, eps=EPSILON)


class Bert(nn.Module):
    """A BERT with a masked-language-model head.

    compute_dtype is the type of the activations after the embeddings. It is bf16 in training on a GPU,
    and float32 on a CPU, where bf16 is slow or missing, and wherever the numbers are to be compared.
    """

    def __init__(
        self,
        vocabulary: int,
        hidden: int,
        *,
        compute_dtype: torch.dtype = torch.bfloat16,
        compiled: bool = False,
    ) -> None:
        super().__init__()
        self.compute_dtype = compute_dtype
        self.words = nn.Embedding(vocabulary, hidden)
        self.positions = nn.Embedding(WINDOW, hidden)
        self.types = nn.Embedding(2, hidden)
        self.norm = nn.LayerNorm(hidden, eps=EPSILON)
        self.layers = nn.ModuleList(Layer(hidden) for _ in range(LAYERS))
        self.transform = nn.Linear(hidden, hidden)
        self.transform_norm = nn.LayerNorm(hidden, eps=EPSILON)
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=INITIAL_DEVIATION)
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)
        # Compiled one by one rather than as a whole: the twelve layers then share one compiled function.
        self.embed: Callable[..., Tensor] = embed
        self.apply_layer: Callable[..., Tensor] = apply_layer
        self.score: Callable[..., tuple[Tensor, Tensor]] = score
        if compiled:
            self.embed = torch.compile(embed, dynamic=False)
            self.apply_layer = torch.compile(apply_layer, dynamic=False)
            self.score = torch.compile(score, dynamic=False)

    def encode(self, ids: Tensor, places: Tensor) -> Tensor:
        """The last layer's output at the places, which are indices into the flattened batch."""
        x = self.embed(self, self.words(ids))  # (B, T) -> (B, T, D)
        for layer in self.layers:
            x = self.apply_layer(layer, x)
        return x.flatten(0, 1).index_select(0, places)  # (B * T, D) -> (P, D)

    def forward(self, ids: Tensor, places: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Mean loss and accuracy at the masked places."""
        return self.score(self, self.encode(ids, places), labels)

    def logits(self, ids: Tensor, places: Tensor) -> Tensor:
        """What the model predicts at the places: (P, V), float32."""
        return predict(self, self.encode(ids, places))


def linear(x: Tensor, module: nn.Linear) -> Tensor:
    """The module's product in the type of x, whatever the type of its weights."""
    return functional.linear(x, module.weight.to(x.dtype), module.bias.to(x.dtype))


def normalize(x: Tensor, module: nn.LayerNorm) -> Tensor:
    """The module's layer norm in the type of x."""
    weight, bias = module.weight.to(x.dtype), module.bias.to(x.dtype)
    return functional.layer_norm(x, x.shape[-1:], weight, bias, module.eps)


def embed(model: Bert, words: Tensor) -> Tensor:
    """Add positions and the first segment's type; in float32 up to the norm, then in the compute type."""
    x = words + model.positions.weight[: words.shape[1]] + model.types.weight[0]  # (B, T, D)
    return normalize(x, model.norm).to(model.compute_dtype)


def apply_layer(layer: Layer, x: Tensor) -> Tensor:
    """Self-attention, then the feed-forward network, each followed by residual and norm."""
    batch, length, hidden = x.shape
    qkv = linear(x, layer.qkv).view(batch, length, 3, HEADS, hidden // HEADS)  # (B, T, 3, H, d)
    query, key, value = qkv.permute(2, 0, 3, 1, 4)  # three of (B, H, T, d)
    context = functional.scaled_dot_product_attention(query, key, value)  # no mask: no sequence is padded
    context = context.transpose(1, 2).reshape(batch, length, hidden)  # (B, T, H, d) -> (B, T, D)
    x = normalize(x + linear(context, layer.attention_output), layer.attention_norm)
    return normalize(x + linear(functional.gelu(linear(x, layer.intermediate)), layer.output), layer.norm)


def predict(model: Bert, x: Tensor) -> Tensor:
    """The output layer: (P, D) -> (P, V)."""
    x = normalize(functional.gelu(linear(x, model.transform)), model.transform_norm)
    return functional.linear(x, model.words.weight.to(x.dtype), model.bias.to(x.dtype)).float()


def score(model: Bert, x: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Mean loss and accuracy of the predictions."""
    logits = predict(model, x)
    return functional.cross_entropy(logits, labels), (logits.argmax(-1) == labels).float().mean()


def hugging_face_modules(model: Bert) -> Iterator[tuple[str, nn.Module]]:
    """The modules with a weight and a bias that transformers has too, each under the name it has there."""
    yield "bert.embeddings.LayerNorm", model.norm
    yield "cls.predictions.transform.dense", model.transform
    yield "cls.predictions.transform.LayerNorm", model.transform_norm
    for number, layer in enumerate(model.layers):
        base = f"bert.encoder.layer.{number}"
        yield f"{base}.attention.output.dense", layer.get_submodule("attention_output")
        yield f"{base}.attention.output.LayerNorm", layer.get_submodule("attention_norm")
        yield f"{base}.intermediate.dense", layer.get_submodule("intermediate")
        yield f"{base}.output.dense", layer.get_submodule("output")
        yield f"{base}.output.LayerNorm", layer.get_submodule("norm")


def hugging_face_weights(model: Bert) -> dict[str, Tensor]:
    """All weights under transformers' names. The tied output matrix is not repeated."""
    weights = {
        "bert.embeddings.word_embeddings.weight": model.words.weight,
        "bert.embeddings.position_embeddings.weight": model.positions.weight,
        "bert.embeddings.token_type_embeddings.weight": model.types.weight,
        "cls.predictions.bias": model.bias,
    }
    for name, module in hugging_face_modules(model):
        weights[f"{name}.weight"] = module.get_parameter("weight")
        weights[f"{name}.bias"] = module.get_parameter("bias")
    for number, layer in enumerate(model.layers):
        for kind in ("weight", "bias"):
            parts = layer.get_parameter(f"qkv.{kind}").chunk(3)  # (3 * D, ...) -> three of (D, ...)
            for name, part in zip(("query", "key", "value"), parts, strict=True):
                weights[f"bert.encoder.layer.{number}.attention.self.{name}.{kind}"] = part
    return weights


def hugging_face_config(model: Bert) -> dict[str, Any]:
    """The contents of config.json.

    The dropout rates are BERT's usual ones, for whoever trains the model further. Its own training used none.
    """
    hidden = model.transform.in_features
    return {
        "architectures": ["BertForMaskedLM"],
        "model_type": "bert",
        "vocab_size": model.words.num_embeddings,
        "hidden_size": hidden,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "intermediate_size": 4 * hidden,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.1,
        "max_position_embeddings": WINDOW,
        "type_vocab_size": 2,
        "initializer_range": INITIAL_DEVIATION,
        "layer_norm_eps": EPSILON,
        "pad_token_id": 0,
        "tie_word_embeddings": True,
        "dtype": "float32",
    }


def export(model: Bert, folder: Path, tokenizer: Path) -> None:
    """Write a Hugging Face folder: config.json, model.safetensors (fp16), the tokenizer's files."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = hugging_face_weights(model)
    halves = {name: weight.detach().half().cpu().contiguous().clone() for name, weight in weights.items()}
    save_file(halves, str(folder / "model.safetensors"), metadata={"format": "pt"})
    config = json.dumps(hugging_face_config(model), indent=2)
    (folder / "config.json").write_text(config + "\n", encoding="utf-8")
    for name in TOKENIZER_FILES:
        shutil.copy(tokenizer / name, folder / name)
