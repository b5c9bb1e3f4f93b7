"""A language model behind HTTP, as small servers are: Transformers' own `generate`, random weights, one request at a time.

    server.py FOLDER

Makes the model in FOLDER where there is none, and prints its port when it serves. POST /generate has `{"prompt": [token, …], "tokens": N}` and
is answered with the new tokens; GET /metrics is a page for Prometheus; POST /end ends it. Each answer is a line of the log, FOLDER/log. Marks
`prefill` and `decode` for `energy-trace record --ranges`.
"""

import contextlib
import http.server
import json
import pathlib
import sys
import threading
import time

import energy_trace
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM
from transformers.generation.streamers import BaseStreamer

SIZES = {"hidden_size": 384, "intermediate_size": 1536, "num_hidden_layers": 6, "num_attention_heads": 6, "vocab_size": 4096}
PAGE = """# TYPE generated_tokens_total counter
generated_tokens_total{{model="random"}} {generated}
# TYPE prompt_tokens_total counter
prompt_tokens_total{{model="random"}} {prompt}
# TYPE requests_total counter
requests_total{{model="random"}} {requests}
"""
counted = {"generated": 0, "prompt": 0, "requests": 0}


class Tokens(BaseStreamer):
    """Counts tokens as they are made; the first ones that it is given are the prompt."""

    def __init__(self):
        self.made = []
        self.is_prompt = True

    def put(self, value):
        tokens = value.flatten().tolist()
        if self.is_prompt:
            self.is_prompt = False
            counted["prompt"] += len(tokens)
            return
        self.made += tokens
        counted["generated"] += len(tokens)

    def end(self):
        counted["requests"] += 1


class Model:
    def __init__(self, folder):
        if not (folder / "config.json").exists():
            torch.manual_seed(1)
            LlamaForCausalLM(LlamaConfig(**SIZES, max_position_embeddings=2048, eos_token_id=None)).save_pretrained(folder)
        self.model = AutoModelForCausalLM.from_pretrained(folder).eval()
        self.model.forward = self.marked(self.model.forward)
        self.lock = threading.Lock()
        self.log = open(folder / "log", "a", buffering=1)

    @staticmethod
    def marked(forward):
        """A pass over many tokens is a prompt's."""

        def pass_over(*words, input_ids, **named):
            with energy_trace.range("prefill" if input_ids.shape[1] > 1 else "decode"):
                return forward(*words, input_ids=input_ids, **named)

        return pass_over

    def generate(self, prompt, tokens):
        streamer = Tokens()
        lengths = {"max_new_tokens": tokens, "min_new_tokens": tokens, "do_sample": False, "pad_token_id": 0}
        with self.lock, torch.inference_mode():
            self.model.generate(torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long), streamer=streamer, **lengths)
            self.log.write(f"{time.monotonic_ns()} prompt {len(prompt)} generated {len(streamer.made)}\n")
        return streamer.made


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path == "/metrics":
            self.answer(200, PAGE.format(**counted), "text/plain; version=0.0.4")
        else:
            self.answer(404, "")

    def do_POST(self):
        asked = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/end":
            self.answer(200, "")
            threading.Thread(target=self.server.shutdown).start()
        elif self.path == "/generate":
            self.answer(200, json.dumps({"tokens": self.server.model.generate(**json.loads(asked))}), "application/json")
        else:
            self.answer(404, "")

    def answer(self, status, text, kind="text/plain"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        with contextlib.suppress(BrokenPipeError):  # who asked waits no longer than a second
            self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


def main():
    torch.set_num_threads(1)
    # What stands in for NVIDIA's libraries (`xtask/src/torch_stubs.rs`) does not survive the question.
    torch.cuda.is_current_stream_capturing = lambda: False
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.model = Model(pathlib.Path(sys.argv[1]))
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
