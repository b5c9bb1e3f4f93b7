"""Text made by a language model of Hugging Face's transformers, with random weights: `generate` under no_grad."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import torch
from transformers import GPT2Config, GPT2LMHeadModel
from windows import call, going

torch.cuda.is_current_stream_capturing = lambda: False  # stand-ins for NVIDIA's libraries cannot say it
torch.manual_seed(1)
model = GPT2LMHeadModel(GPT2Config(n_layer=4, n_head=8, n_embd=256, vocab_size=2000, bos_token_id=0, eos_token_id=1)).eval()
words = torch.randint(2, 2000, (4, 16))
for _ in going():
    with call("transformers.GPT2LMHeadModel.generate"):
        model.generate(words, max_new_tokens=40, do_sample=True, pad_token_id=1, attention_mask=torch.ones_like(words))
