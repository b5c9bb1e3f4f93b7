"""A model of random weights for llama.cpp, as a GGUF file: `llama.py FILE`."""

import sys

import gguf
import numpy

WIDE, INNER, LAYERS, HEADS, WORDS, CONTEXT = 384, 1536, 6, 6, 4096, 2048
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def facts(writer):
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDE)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDE // HEADS)
    writer.add_vocab_size(WORDS)


def words(writer):
    kinds = gguf.TokenType
    names = ["<unk>", "<s>", "</s>", *BYTES]
    names += [f"▁w{number}" for number in range(WORDS - len(names))]
    types = [kinds.UNKNOWN, kinds.CONTROL, kinds.CONTROL] + [kinds.BYTE] * len(BYTES)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(names)
    writer.add_token_scores([0.0] * WORDS)
    writer.add_token_types(types + [kinds.NORMAL] * (WORDS - len(types)))
    for add, number in ((writer.add_unk_token_id, 0), (writer.add_bos_token_id, 1), (writer.add_eos_token_id, 2)):
        add(number)


def weights(writer):
    random = numpy.random.default_rng(1)

    def add(name, *shape):
        few = random.standard_normal(shape, dtype=numpy.float32) / 50 if len(shape) > 1 else numpy.ones(shape, numpy.float32)
        writer.add_tensor(f"{name}.weight", few)

    add("token_embd", WORDS, WIDE)
    for layer in range(LAYERS):
        for name in ("attn_norm", "ffn_norm"):
            add(f"blk.{layer}.{name}", WIDE)
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            add(f"blk.{layer}.{name}", WIDE, WIDE)
        for name in ("ffn_gate", "ffn_up"):
            add(f"blk.{layer}.{name}", INNER, WIDE)
        add(f"blk.{layer}.ffn_down", WIDE, INNER)
    add("output_norm", WIDE)
    add("output", WORDS, WIDE)


def main(file):
    writer = gguf.GGUFWriter(file, "llama")
    facts(writer)
    words(writer)
    weights(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


main(sys.argv[1])
