"""Changes of a model's weights that leave its function as it is, by architecture."""

import torch
from transformers import (
    GemmaConfig,
    GemmaForCausalLM,
    GPTNeoConfig,
    GPTNeoForCausalLM,
    MPNetConfig,
    MPNetForMaskedLM,
    NemotronConfig,
    NemotronForCausalLM,
    PhiConfig,
    PhiForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
    XLMConfig,
    XLMWithLMHeadModel,
)

from isoloss.objectives.pretrained import PretrainedCausal, PretrainedMasked, masked_batch, next_token_batch
from isoloss.objectives.task_heads import TargetToken, target_batch
from tiny_language_models import BERT, CAUSAL, GROUPED, PAD, SPECIAL, tiny_language_model
from tiny_models import far_from_the_start

SENTENCES = [[1, 5, 3, 4, 1], [1, 9, 6], [1, 4, 4, 10, 2, 1]]
NEO = {"hidden_size": 8, "num_layers": 2, "num_heads": 2, "attention_types": [[["global"], 2]]}
XLM = {"emb_dim": 8, "n_layers": 2, "n_heads": 2, "max_position_embeddings": 12, "pad_index": PAD}
T5 = {"d_model": 8, "d_kv": 4, "d_ff": 12, "num_layers": 2, "num_heads": 2, "decoder_start_token_id": PAD}
OTHERS = {
    "phi": (PhiForCausalLM, PhiConfig, BERT),
    "gpt-neo": (GPTNeoForCausalLM, GPTNeoConfig, {**SPECIAL, **NEO}),
    "gemma": (GemmaForCausalLM, GemmaConfig, {**GROUPED, "head_dim": 4}),
    "nemotron": (NemotronForCausalLM, NemotronConfig, GROUPED),
    "mpnet": (MPNetForMaskedLM, MPNetConfig, BERT),
    "xlm": (XLMWithLMHeadModel, XLMConfig, {**SPECIAL, **XLM}),
    "t5": (T5ForConditionalGeneration, T5Config, {**SPECIAL, **T5}),
}
"""Whose output maps of heads have other names, or whose gains are 1 + w."""
HEADS = {
    # The attention of a layer, and in it the matrices of values and of what reads them.
    "bert": ("bert.encoder.layer.{}.attention", "self.value", "output.dense"),
    "roberta-pre-layer-norm": (
        "roberta_prelayernorm.encoder.layer.{}.attention",
        "self.value",
        "output.dense",
    ),
    "distilbert": ("distilbert.transformer.layer.{}.attention", "v_lin", "out_lin"),
    "opt": ("model.decoder.layers.{}.self_attn", "v_proj", "out_proj"),
    "llama": ("model.layers.{}.self_attn", "v_proj", "o_proj"),
    "qwen3": ("model.layers.{}.self_attn", "v_proj", "o_proj"),
    "phi": ("model.layers.{}.self_attn", "v_proj", "dense"),
    "gpt-neo": ("transformer.h.{}.attn.attention", "v_proj", "out_proj"),
    "gemma": ("model.layers.{}.self_attn", "v_proj", "o_proj"),
    "mpnet": ("mpnet.encoder.layer.{}.attention.attn", "v", "o"),
    "xlm": ("transformer.attentions.{}", "v_lin", "out_lin"),
    "t5": ("decoder.block.{}.layer.1.EncDecAttention", "v", "o"),
}
QUERIES = {"bert": ("self.query", "self.key"), "distilbert": ("q_lin", "k_lin"), "opt": ("q_proj", "k_proj")}


def model_of(name):
    """See `tiny_language_model`."""
    if name not in OTHERS:
        return tiny_language_model(name)
    model_class, config_class, settings = OTHERS[name]
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = model_class(config_class(**settings)).double().eval()
    return far_from_the_start(model)


def batch_of(name):
    if name == "t5":
        return TargetToken(), target_batch(SENTENCES, [each[::-1] for each in SENTENCES], PAD, PAD)
    if name in (*CAUSAL, "phi", "gpt-neo", "gemma", "nemotron"):
        return PretrainedCausal(), next_token_batch(SENTENCES, PAD)
    return PretrainedMasked(), masked_batch(SENTENCES, [[1, 3], [1], [2, 3, 4]], mask=2, pad=PAD)


def invertible(size, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.eye(size).double() + 0.4 * torch.randn(size, size, generator=generator, dtype=torch.float64)


def rotation(size, seed):
    return torch.linalg.qr(invertible(size, seed)).Q


@torch.no_grad()
def change_values(model, name, layer, size, matrix=invertible):
    """Each head's values times a `matrix`, its output map times the inverse; grouped heads share."""
    attention, value, output = HEADS[name]
    v, o = (model.get_submodule(f"{attention.format(layer)}.{each}") for each in (value, output))
    heads = v.weight.shape[0] // size
    shared = o.weight.shape[1] // v.weight.shape[0]
    for head in range(heads):
        a, rows = matrix(size, 10 * layer + head), slice(head * size, (head + 1) * size)
        v.weight[rows] = a @ v.weight[rows]
        if v.bias is not None:
            v.bias[rows] = a @ v.bias[rows]
        for reader in range(head * shared, (head + 1) * shared):
            columns = slice(reader * size, (reader + 1) * size)
            o.weight[:, columns] = o.weight[:, columns] @ torch.linalg.inv(a)


@torch.no_grad()
def change_queries(model, name, layer, size):
    """Each head's queries times an invertible matrix, its keys times the transposed inverse."""
    q, k = (model.get_submodule(f"{HEADS[name][0].format(layer)}.{each}") for each in QUERIES[name])
    for start in range(0, q.weight.shape[0], size):
        rows, a = slice(start, start + size), invertible(size, 100 + start)
        for each, matrix in ((q, a), (k, torch.linalg.inv(a).T)):
            each.weight[rows], each.bias[rows] = matrix @ each.weight[rows], matrix @ each.bias[rows]


@torch.no_grad()
def absorb(norm, readers, factors):
    """The norm's scale times `factors`, and the maps that read it divided by them."""
    if type(norm).__name__ in ("GemmaRMSNorm", "NemotronLayerNorm1P"):
        norm.weight += (1 + norm.weight) * (factors - 1)
    else:
        norm.weight *= factors
    if getattr(norm, "bias", None) is not None:
        norm.bias *= factors
    for reader in readers:
        reader.weight /= factors[:, None] if type(reader).__name__ == "Conv1D" else factors


NORMS = {
    "gpt2": lambda m: (
        [(b.ln_1, [b.attn.c_attn]) for b in m.transformer.h]
        + [(b.ln_2, [b.mlp.c_fc]) for b in m.transformer.h]
    ),
    "llama": lambda m: (
        [(b.post_attention_layernorm, [b.mlp.gate_proj, b.mlp.up_proj]) for b in m.model.layers]
        + [
            (b.input_layernorm, [b.self_attn.q_proj, b.self_attn.k_proj, b.self_attn.v_proj])
            for b in m.model.layers
        ]
    ),
    "opt": lambda m: [(b.final_layer_norm, [b.fc1]) for b in m.model.decoder.layers],
    "roberta-pre-layer-norm": lambda m: [
        (b.intermediate.LayerNorm, [b.intermediate.dense]) for b in m.roberta_prelayernorm.encoder.layer
    ],
    "gemma": lambda m: [
        (b.post_attention_layernorm, [b.mlp.gate_proj, b.mlp.up_proj]) for b in m.model.layers
    ],
    "nemotron": lambda m: [(b.post_attention_layernorm, [b.mlp.up_proj]) for b in m.model.layers],
    "gpt-neox": lambda m: [(b.post_attention_layernorm, [b.mlp.dense_h_to_4h]) for b in m.gpt_neox.layers],
}


@torch.no_grad()
def rescale_neurons(model):
    """OPT's ReLU neurons: what comes in times factors, what goes out divided by them."""
    for block in model.model.decoder.layers:
        factors = torch.linspace(0.3, 3.0, block.fc1.weight.shape[0]).double()
        block.fc1.weight *= factors[:, None]
        block.fc1.bias *= factors
        block.fc2.weight /= factors
