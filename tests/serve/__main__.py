"""Servers that run already, with their tokens; one of them with its ranges; trainings with their steps: `cargo xtask serve` calls it, as root.

    tests/serve PROGRAM FOLDER SECONDS

Drives `server.py` and llama.cpp's own server with prompts of known lengths: half of the time long prompts and short answers, half of it the other
way round. What must be equal is asserted, joules are printed. `SERVE_PATH` is where the Python of this process finds PyTorch, if not by itself;
`LLAMA_ROOT` has Debian's packages of llama.cpp.
"""

import datetime
import http.client
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
CLASSES = ("package", "dram", "gpu")
# Tokens of a prompt, and of its answer.
LOADS = {"prompt-heavy": (512, 4), "decode-heavy": (16, 64)}


def environment():
    return {**os.environ, "PYTHONPATH": os.environ.get("SERVE_PATH", ""), "HF_HUB_OFFLINE": "1", "OMP_WAIT_POLICY": "passive"}


class Server:
    """Transformers behind HTTP, by itself or below a recorder."""

    # What its page calls each unit.
    METRICS = {"token": "generated_tokens_total", "prompt token": "prompt_tokens_total", "request": "requests_total"}
    # The functions, or rates of work, that tell its phases apart.
    TOLD_BY = [{"_prefill"}]

    def __init__(self, folder, *before):
        self.folder = folder
        words = [*before, sys.executable, str(HERE / "server.py"), str(folder)]
        self.process = subprocess.Popen(words, env=environment(), stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        assert line, "the server did not start"
        self.port = int(line)
        self.logged = len(self.log())

    def log(self):
        """Prompt and generated tokens of each answer."""
        lines = (self.folder / "log").read_text().splitlines()
        return [(int(words[2]), int(words[4])) for words in map(str.split, lines)]

    def work(self):
        """Options of energy-trace that count all units."""
        page = f"prometheus:http://127.0.0.1:{self.port}/metrics"
        return [f"--work={unit}={page}#{metric}" for unit, metric in self.METRICS.items()]

    def ask(self, connection, prompt, tokens):
        """Asks once; how many tokens came."""
        connection.request("POST", "/generate", json.dumps({"prompt": prompt, "tokens": tokens}))
        return len(json.loads(connection.getresponse().read())["tokens"])

    def drive(self, prompt, tokens, seconds):
        """Asks for that long; how often it was answered."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        end, answers = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            came = self.ask(connection, [300 + (7 * at + answers) % 3000 for at in range(prompt)], tokens)
            assert came == tokens, came
            answers += 1
        return answers

    def drive_all(self, seconds):
        """Both loads; when each ran, and its answers."""
        ran = {}
        for name, (prompt, tokens) in LOADS.items():
            time.sleep(1)
            begin = time.monotonic_ns()
            answers = self.drive(prompt, tokens, seconds / len(LOADS))
            ran[name] = (begin, time.monotonic_ns(), answers)
        time.sleep(1)
        return ran

    def end(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request("POST", "/end")
        connection.getresponse().read()
        assert self.process.wait(120) == 0


class Llama(Server):
    """llama.cpp's own server."""

    METRICS = {"token": "llamacpp:tokens_predicted_total", "prompt token": "llamacpp:prompt_tokens_total"}
    TOLD_BY = [{"[prompt token per joule, of the most]"}, {"[token per joule, of the most]"}]

    def __init__(self, folder):
        self.folder = folder
        model = str(folder / "model.gguf")
        subprocess.run([sys.executable, str(HERE / "llama.py"), model], check=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        root = pathlib.Path(os.environ["LLAMA_ROOT"])
        libraries = root / "usr/lib/x86_64-linux-gnu"
        words = [root / "usr/lib64/ld-linux-x86-64.so.2", "--library-path", f"{libraries}:{libraries}/llama", root / "usr/bin/llama-server"]
        words += ["-m", model, "--host", "127.0.0.1", "--port", str(self.port), "--metrics", "-t", "1", "-tb", "1", "-np", "1", "-c", "2048"]
        with open(folder / "log", "w") as log:
            # What computes is looked for where it runs.
            self.process = subprocess.Popen(words, stdout=log, stderr=log, cwd=libraries / "ggml/backends0")
        deadline = time.monotonic() + 60
        while "listening on" not in (folder / "log").read_text(errors="replace"):
            assert time.monotonic() < deadline, (folder / "log").read_text(errors="replace")
            time.sleep(0.1)
        self.logged = len(self.log())

    def log(self):
        text = (self.folder / "log").read_text(errors="replace")
        prompts = re.findall(r"prompt eval time = .*?/ +(\d+) tokens", text)
        answers = re.findall(r"(?<!prompt) eval time = .*?/ +(\d+) (?:tokens|runs)", text)
        return [(int(prompt), int(tokens)) for prompt, tokens in zip(prompts, answers)]

    def ask(self, connection, prompt, tokens):
        asked = {"prompt": prompt, "n_predict": tokens, "ignore_eos": True, "cache_prompt": False, "temperature": 0}
        connection.request("POST", "/completion", json.dumps(asked))
        return json.loads(connection.getresponse().read())["tokens_predicted"]

    def end(self):
        self.process.terminate()
        self.process.wait(60)


def report(program, recording, *words):
    return json.loads(subprocess.check_output([program, "report", recording, "--format", "json", *words]))


def uj(by_class):
    return sum(by_class.get(name) or 0 for name in CLASSES)


def target(found):
    return {name: sum(row["target_uj"] for row in found["ledger"] if row["class"] == name) for name in CLASSES}


def check_work(found, name, units):
    """So many units, and joules a unit times units and the rest are the ledger's; the entry."""
    work = next(work for work in found["work"] if work["name"] == name)
    assert work["units"] == units, (work["units"], units)
    for kind, whole in target(found).items():
        parts = (work["energy_uj"].get(kind) or 0) + (work["rest_uj"].get(kind) or 0)
        assert parts == whole, (name, kind, parts, whole)
    energy = uj(work["energy_uj"])
    assert round(work["uj_per_unit"] * work["units"]) == energy, work
    rest, whole = uj(work["rest_uj"]), sum(target(found).values())
    each = work["uj_per_unit"] / 1e6
    print(f"  {each:.4f} J per {name} x {units:.0f} = {energy / 1e6:.6f} J, and {rest / 1e6:.6f} J of rest = {whole / 1e6:.6f} J of the ledger")
    return work


def attached(program, server, seconds):
    """A server that runs already and has answered before; when its loads ran, and the recording."""
    recording = str(server.folder / "attached.data")
    server.drive(64, 8, 2)
    server.logged = len(server.log())
    words = [program, "record", "-p", str(server.process.pid), "--control", "--no-svg", "-q", "-o", recording, *server.work()]
    recorder = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    start = json.loads(recorder.stdout.readline())["start_ns"]
    ran = server.drive_all(seconds)
    recorder.communicate()
    assert recorder.returncode == 0, recorder.returncode
    log = server.log()[server.logged :]
    server.end()
    sent = [sum(LOADS[name][at] * answers for name, (_, _, answers) in ran.items()) for at in (0, 1)]
    logged = [sum(line[at] for line in log) for at in (0, 1)]
    assert sent == logged, (sent, logged)
    print(f"attached to {type(server).__name__}: {len(log)} answers, {logged[0]} prompt and {logged[1]} generated tokens by the server's log, the client and the recording")
    found = report(program, recording)
    units = {"token": logged[1], "prompt token": logged[0], "request": len(log)}
    for name in server.METRICS:
        check_work(found, name, units[name])
    ran = {name: ((begin - start) / 1e9, (end - start) / 1e9) for name, (begin, end, _) in ran.items()}
    (_, first), (last, _) = ran.values()
    phases(program, recording, [(first, last)], server.TOLD_BY)
    return ran, recording


def prefill(program, ran, recording):
    """By stacks, most of a load of long prompts is prefill, of one of long answers it is not."""
    shares = {}
    for name, (begin, end) in ran.items():
        shares[name] = prefill_share(report(program, recording, "--from", f"{begin}", "--to", f"{end}"))
        print(f"  {name}: by stacks {shares[name]:.0%} of its joules are prefill's")
    assert shares["prompt-heavy"] > 0.5 > shares["decode-heavy"], shares


def prefill_share(found):
    """Of the joules of `generate`, those of the first pass: Transformers has a function for it."""
    total = {}
    for function in found["functions"]:
        total.setdefault(function["name"].rpartition(".")[2], uj(function["total_uj"]))
    return total.get("_prefill", 0) / total["generate"]


def ranges(program, folder, seconds):
    """The server started by the recorder, which hears of its ranges."""
    recording = str(folder / "ranges.data")
    server = Server(folder, program, "record", "--ranges", "--no-svg", "-q", "-o", recording, "--")
    ran = server.drive_all(seconds)
    log = server.log()[server.logged :]
    server.end()
    rows = {row["name"]: uj(row["total_uj"]) for row in report(program, recording, "--by", "range")["rows"]}
    prompt, generated = (sum(line[at] for line in log) for at in (0, 1))
    # The first new token comes with the prompt's pass.
    passes = generated - len(log)
    print(f"ranges: prefill {rows['prefill'] / 1e6:.3f} J, {rows['prefill'] / prompt / 1e3:.3f} mJ a token of a prompt", end="; ")
    print(f"decode {rows['decode'] / 1e6:.3f} J, {rows['decode'] / passes / 1e3:.3f} mJ a token")
    assert rows["decode"] / passes > rows["prefill"] / prompt, rows
    return ran


def training(program, recording, example, seconds):
    """Steps by calls: each has its backward pass, which is counted in machine code; what the program said."""
    words = [program, "record", "--no-svg", "-q", "-o", recording, "--work", "step=calls:THPEngine_run_backward@libtorch_python", "--"]
    said = subprocess.check_output([*words, sys.executable, str(example), str(seconds)], env=environment(), text=True)
    [steps] = [int(line.split()[1]) for line in said.splitlines() if line.startswith(example.stem + ":")]
    print(f"{example.stem}: {steps} steps")
    check_work(report(program, recording), "step", steps)
    return said


def phases(program, recording, limits, told_by):
    """Stretches are found from what runs, with their limits, each between two moments in seconds since the start, and functions that tell them."""
    rows = [row for row in report(program, recording, "--by", "phase")["rows"] if row["self_ns"] > 0]
    step = rows[0]["phase"]["step_ns"] / 1e9
    told = {row["name"].split(":")[0]: {by["function"].rpartition(".")[2] for by in row["phase"]["told_by"]} for row in rows}
    found = sorted((begin / 1e9, end / 1e9, row["name"].split(":")[0]) for row in rows for begin, end in row["phase"]["stretches_ns"])
    print(f"  phases in steps of {step} s: " + ", ".join(f"{name} from {begin:.1f} s on" for begin, _, name in found))
    for row in rows:
        by = [f"{by['function']} ({by['part']:.0%} here, {by['elsewhere']:.0%} elsewhere)" for by in row["phase"]["told_by"]]
        print(f"    {row['name'].split(':')[0]}, {uj(row['total_uj']) / 1e6:.1f} J: " + ", ".join(by))
    off = [min(max(first - end, end - last, 0) for _, end, _ in found) for first, last in limits]
    print("  limits are off by " + ", ".join(f"{seconds:.2f} s" for seconds in off))
    assert max(off) <= 3 * step, (limits, found)  # the last answer of long prompts ends with decoding
    for functions in told_by:
        assert any(functions <= names for names in told.values()), (functions, told)


def turns(program, recording, said):
    """When the turns of `transformer.py` began, but for the first, in seconds since the start of the recording."""
    began = datetime.datetime.fromisoformat(report(program, recording)["meta"]["start"][:26] + "+00:00").timestamp()
    words = [line.split() for line in said.splitlines() if line.startswith(("train ", "evaluate "))]
    return [(float(at) - began,) * 2 for _, at in words[1:]]


def main():
    os.nice(-10)  # beside builds a page would take longer than it is waited for, and what it counted meanwhile be in no stretch
    program, folder, seconds = sys.argv[1], pathlib.Path(sys.argv[2]), float(sys.argv[3])
    of_llama = folder / "llama"
    of_llama.mkdir()
    attached(program, Llama(of_llama), seconds)
    prefill(program, *attached(program, Server(folder), seconds))
    ranges(program, folder, seconds)
    recording = str(folder / "training.data")
    for example in ("torch_recommender.py", "torch_training.py"):
        training(program, recording, HERE.parents[1] / "examples" / example, seconds / 3)
    said = training(program, recording, HERE / "transformer.py", seconds / 3)
    phases(program, recording, turns(program, recording, said), [{"train_step"}, {"evaluate"}])


main()
