"""The parts of the check. Each takes the place and returns what it found, or raises `Skipped`. Leaves out how they are run and written down."""

import datetime
import json
import os
import shutil
import socket
import struct
import subprocess
import threading
import time

import nvml
import regression
from place import ROOT, Skipped, end_of, last_json, run


def machine(place):
    result = {"kernel": os.uname().release, "libraries": {"nvml": place.nvml_library, "cuda": place.cuda_library, "cupti": place.cupti_library}}
    if place.nvml_library:
        device = nvml.Device(place.nvml_library)
        result["driver"] = device.text("nvmlSystemGetDriverVersion")
        result["device"] = device.text("nvmlDeviceGetName", device.handle)
    if shutil.which("nvidia-smi"):
        result["nvidia_smi"] = end_of(run(["nvidia-smi"], 60).stdout, 4000)
    if place.product:
        words = [place.product, "doctor", "--json"] + (["--nvml-lib", place.nvml_library] if place.nvml_library else [])
        done = run(words, 120)
        result["doctor"] = json.loads(done.stdout) if done.stdout.strip().startswith(("{", "[")) else end_of(done.stderr)
        result["doctor_exit"] = done.returncode
    try:
        place.record("probe", ["sleep", "0.3"])
        result["ebpf"] = True
    except Skipped as why:
        result["ebpf"], place.records = False, str(why)
        result["ebpf_why"] = str(why)
    return result


def watched(place, command, env=None):
    """Runs a command with the quick NVML loop beside it: rows, and what it printed."""
    device = nvml.Device(place.need(place.nvml_library, "no libnvidia-ml.so.1"))
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **(env or {})})
    rows = nvml.sample(device, lambda: child.poll() is None)
    said, trouble = child.communicate()
    keep_rows(place, "-".join(["watched", *map(str, command[3:4])]), rows)
    if child.returncode:
        raise RuntimeError(f"{command[0]} ended with {child.returncode}: {end_of(trouble)}")
    return rows, said


def keep_rows(place, name, rows):
    """What the quick loop has read: nanoseconds of CLOCK_MONOTONIC, mJ, mW, microseconds of the read."""
    place.keep(f"{name}-{time.monotonic_ns()}.csv", "".join(f"{at},{mj},{mw},{us:.0f}\n" for at, mj, mw, us in rows))


def totals(place):
    result = {}
    for mode in ("idle", "mixed"):
        device = nvml.Device(place.need(place.nvml_library, "no libnvidia-ml.so.1"))
        smi = None
        if shutil.which("nvidia-smi"):
            query = ["nvidia-smi", "-i", "0", "--query-gpu=power.draw.instant", "--format=csv,noheader,nounits", "-lms", "100"]
            smi = subprocess.Popen(query, stdout=subprocess.PIPE, text=True)
        rows, stop = [], threading.Event()
        reader = threading.Thread(target=lambda: rows.extend(nvml.sample(device, lambda: not stop.is_set(), 0.005)))
        reader.start()
        try:
            data, _ = place.record("totals-" + mode, place.driver(mode, place.seconds(15)))
            ours = next(row for row in place.report(data)["ledger"] if row["domain"] == "gpu-0")["measured_uj"] / 1e6
            meta = place.report(data)["meta"]
            seconds, start_ns = meta["duration_ns"] / 1e9, monotonic_of(meta["start"])
        except Skipped as why:
            run(place.driver(mode, place.seconds(15)), 120)
            ours, seconds = {"skipped": str(why)}, None
        finally:
            stop.set(), reader.join()
            if smi:
                smi.terminate()
        loop = nvml.summary(rows)
        keep_rows(place, "totals-" + mode, rows)
        entry = {"energy_trace_j": ours, "energy_trace_seconds": seconds, "nvml_loop": loop}
        if seconds:
            inside = [row for row in rows if 0 <= row[0] - start_ns <= seconds * 1e9]
            entry["nvml_j_over_as_long"] = (inside[-1][1] - inside[0][1]) / 1e3
            entry["note"] = "each span ends within a step of the counter"
        if smi:
            watts = [float(word) for word in smi.communicate()[0].split() if word.replace(".", "", 1).isdigit()]
            entry["nvidia_smi_mean_watts"] = sum(watts) / len(watts) if watts else None
            entry["nvml_mean_watts"] = loop["counter_j"] / loop["seconds"]
        result[mode] = entry
    return result


def monotonic_of(moment):
    """Nanoseconds of CLOCK_MONOTONIC of a moment in RFC 3339 (UTC)."""
    whole, _, fraction = moment.rstrip("Z").replace("+00:00", "").partition(".")
    unix_ns = int(datetime.datetime.fromisoformat(whole + "+00:00").timestamp()) * 10**9 + int(fraction[:9].ljust(9, "0") or 0)
    return unix_ns - (time.time_ns() - time.monotonic_ns())


def meter(place):
    log = place.file("meter.log")
    rows, _ = watched(place, place.driver("idle", place.seconds(6)))
    idle = nvml.summary(rows)
    rows, said = watched(place, place.driver("mixed", place.seconds(25, 4)), {"GPU_DRIVER_LOG": log})
    idle_watts = idle["counter_j"] / idle["seconds"]
    fit = regression.regress(nvml.edges(rows), regression.read_log(log), idle_watts)
    return {"idle": idle, "load": nvml.summary(rows), "own_regression": fit, "workload": last_json(said), "product": product_meter(place)}


def product_meter(place):
    """The product's sources and attribution on the workload's own log: needs no eBPF."""
    if not place.facts:
        return {"skipped": "gpu_facts was not carried"}
    log = place.file("product.log")
    words = [place.facts, "meter", place.nvml_library or "default", log, "--", *place.driver("mixed", place.seconds(30, 4))]
    done = run(words, 180)
    return json.loads(done.stdout) if done.returncode == 0 else {"failed": end_of(done.stderr)}


def rest(place):
    """Power and clock before, while and after a program holds a context in which nothing runs; and what each call of NVML takes."""
    device = nvml.Device(place.need(place.nvml_library, "no libnvidia-ml.so.1"))
    calls = {"energy": device.energy_mj, "instant": lambda: device.field(nvml.INSTANT), "average": lambda: device.field(nvml.AVERAGE),
             "usage": device.usage_mw, "clock": device.clock_mhz}
    costs = {name: [] for name in calls}
    for _ in range(30):
        for name, call in calls.items():
            before, busy = time.monotonic_ns(), time.thread_time_ns()
            call()
            costs[name].append(((time.monotonic_ns() - before) / 1000, (time.thread_time_ns() - busy) / 1000))
    time.sleep(place.seconds(5, 1))
    phases, begun, child = {"start": time.monotonic_ns()}, time.monotonic(), None
    lengths = {"before": place.seconds(2, 1), "open": place.seconds(3, 1), "after": place.seconds(10, 2)}
    rows, old = [], 0
    for phase, length in lengths.items():
        if phase == "open":
            child = subprocess.Popen(place.driver("idle", length), stdout=subprocess.DEVNULL)
        end = time.monotonic() + length
        while time.monotonic() < end or (phase == "open" and child.poll() is None):
            energy = device.energy_mj()
            if energy != old:
                rows.append((round(time.monotonic() - begun, 4), energy, device.clock_mhz(), device.field(nvml.INSTANT)))
            old = energy
            time.sleep(0.004)
        phases[phase] = round(time.monotonic() - begun, 3)
    return {"call_us": {n: {"wall": nvml.spread([c[0] for c in v]), "cpu": nvml.spread([c[1] for c in v])} for n, v in costs.items()},
            "ends": phases, "rows": rows}


def attach(place):
    """A program that runs already: only a part of its work, and a baseline that nobody knows."""
    place.need(place.product, "energy-trace was not carried")
    child = subprocess.Popen(place.driver("mixed", place.seconds(14, 5)), stdout=subprocess.PIPE, text=True)
    time.sleep(place.seconds(3, 1))
    data = place.file("attach.data")
    done = run([*place.recorder(data), "--duration", str(place.seconds(8, 2)), "-p", str(child.pid)], 60)
    place.keep("attach.stderr", done.stderr)
    said = child.communicate()[0]
    report = place.report(data)
    return {"workload": last_json(said), "ledger": report["ledger"], "launches": place.launches(data), "warnings": report["meta"]["warnings"]}


def frameworks(place):
    """Launches seen by both tiers, and the calls that have the GPU's joules."""
    result = {}
    for name in ("jax", "cupy", "triton", "graph"):
        command = ["python3", os.path.join(ROOT, "tests/workloads/gpu_frameworks.py"), name, str(place.seconds(4, 2))]
        for tier in ("launch", "kernel"):
            try:
                data, done = place.record(f"{name}-{tier}", command, tier)
                seen = place.launches(data)["launches"]
                most = dict(sorted(seen.items(), key=lambda pair: -pair[1])[:8])
                result[f"{name}-{tier}"] = {"workload": last_json(done.stdout), "launches": sum(seen.values()), "most": most}
            except Skipped as why:
                result[f"{name}-{tier}"] = {"skipped": str(why)}
            except Exception as error:  # the other frameworks still count
                result[f"{name}-{tier}"] = {"failed": end_of(str(error))}
    return result


def split(place):
    rows, _ = watched(place, place.driver("idle", place.seconds(6)))
    idle = nvml.summary(rows)
    idle_watts, result = idle["counter_j"] / idle["seconds"], {}
    solo = {}
    for kernel in ("matmul", "softmax"):
        rows, said = watched(place, place.driver(kernel, place.seconds(10)))
        loop, work = nvml.summary(rows), last_json(said)
        # Steps of the middle half: neither the start of the program nor the late end of the counter.
        steps = nvml.edges(rows)
        low, high = steps[len(steps) // 4], steps[3 * len(steps) // 4]
        watts = (high[1] - low[1]) / 1e3 / ((high[0] - low[0]) / 1e9)
        each = (watts - idle_watts) * work["seconds"] / max(1, work[kernel]["launches"])
        solo[kernel] = {"watts": watts, "j_per_launch_above_idle": each, "loop": loop, "workload": work}
    result.update(idle_watts=idle_watts, solo=solo)
    for tier in ("launch", "kernel"):
        try:
            result[tier + "_tier"] = split_by(place, tier, solo)
        except Skipped as why:
            result[tier + "_tier"] = {"skipped": str(why)}
    return result


def split_by(place, tier, solo):
    """What a launch of each kernel takes by a tier, in a mix of both, beside what it takes alone."""
    data, done = place.record("mixed-" + tier, place.driver("mixed", place.seconds(25, 4)), tier)
    work, report, found = last_json(done.stdout), place.report(data), {}
    for function in report["functions"]:
        name = function["name"].split("_[g]")[0]
        if name in solo and function["self_uj"].get("gpu"):
            each = function["self_uj"]["gpu"] / 1e6 / max(1, work[name]["launches"])
            found[name] = {"j_per_launch": each, "over_solo": each / solo[name]["j_per_launch_above_idle"],
                           "ci95_uj": function["ci95_uj"], "flags": function["flags"]}
    return {"kernels": found, "launches": place.launches(data), "workload": work, "ledger": report["ledger"],
            "warnings": report["meta"]["warnings"]}


def probes(place):
    library = os.path.realpath(place.need(place.cuda_library, "no libcuda.so.1"))
    result = {"library": library, "bytes": first_bytes(library)}
    data, done = place.record("probes", place.driver("mixed", place.seconds(5)), env=None)
    result["by_cuGetProcAddress"] = {"own_count": last_json(done.stdout), "seen": place.launches(data)}
    result["warnings"] = [w for w in place.report(data)["meta"]["warnings"] if w["code"].startswith("gpu")]
    nvcc = shutil.which("nvcc") or next((p for p in ["/usr/local/cuda/bin/nvcc"] if os.path.exists(p)), None)
    if nvcc:
        program = place.file("gpu_static")
        run([nvcc, "-cudart", "static", "-o", program, os.path.join(ROOT, "tests/workloads/gpu_static.cu")], 180, check=True)
        data, done = place.record("static", [program, str(place.seconds(5))])
        result["static_cudart"] = {"own_count": last_json(done.stdout), "seen": place.launches(data)}
    else:
        result["static_cudart"] = {"skipped": "no nvcc"}
    return result


def first_bytes(library):
    """The first 16 bytes of what launches, and where energy-trace's rule puts the probe (`probe/gpu/prologue.rs`, told again here)."""
    with open(library, "rb") as file:
        elf = file.read()
    offset, count = struct.unpack_from("<Q", elf, 40)[0], struct.unpack_from("<H", elf, 60)[0]
    sections = [struct.unpack_from("<IIQQQQIIQQ", elf, offset + 64 * i) for i in range(count)]
    found = {}
    for section in (s for s in sections if s[1] == 11):
        names = sections[section[6]][4]
        for at in range(section[4], section[4] + section[5], 24):
            name_at, _, _, index, value, _ = struct.unpack_from("<IBBHQQ", elf, at)
            name = elf[names + name_at:elf.index(b"\0", names + name_at)].decode(errors="replace")
            if name.startswith(("cuLaunch", "cuGraphLaunch", "cuMemcpyHtoDAsync", "cuStreamSynchronize")) and 0 < index < count:
                home = sections[index]
                code = elf[value - home[3] + home[4]:][:16]
                skip = 4 if code.startswith(b"\xf3\x0f\x1e\xfa") else 0
                first, second = code[skip], code[skip + 1]
                emulated = 0x50 <= first <= 0x57 or 0x70 <= first <= 0x7F or first in (0x90, 0xE8, 0xE9, 0xEB)
                emulated = emulated or (first == 0x41 and 0x50 <= second <= 0x57) or (first == 0x0F and 0x80 <= second <= 0x8F)
                found[name] = {"code": code.hex(), "offset": skip, "stepped": not emulated}
    return found


def injected(place, command, limit=120):
    """Runs a command with the kernel tier's library: what it printed, and what came over the socket."""
    place.need(place.injection, "libenergy_trace_cupti.so was not carried")
    path = place.file(f"socket-{time.monotonic_ns()}")
    server, heard = socket.socket(socket.AF_UNIX), bytearray()
    server.bind(path), server.listen(1), server.settimeout(limit)

    def listen():
        try:
            stream = server.accept()[0]
            while part := stream.recv(1 << 20):
                heard.extend(part)
        except OSError:
            pass

    reader = threading.Thread(target=listen, daemon=True)
    reader.start()
    env = {"CUDA_INJECTION64_PATH": place.injection, "ENERGY_TRACE_CUPTI_SOCKET": path}
    if place.cupti_library:
        env["ENERGY_TRACE_CUPTI_LIB"] = place.cupti_library
    done = run(command, limit, env, check=True)
    server.close(), reader.join(2)
    return done.stdout, frames(bytes(heard))


# The version of the library's frames that `frames` reads; a test of `tracer/cupti/src/wire.rs` compares it.
PROTOCOL = 3


def frames(data):
    """Sums of what the library sent (`tracer/cupti/src/wire.rs`)."""
    names, busy, result, at = {}, {}, {"bytes": len(data)}, 0
    while at + 5 <= len(data):
        length, kind = struct.unpack_from("<IB", data, at)
        body = data[at + 5:at + 4 + length]
        at += 4 + length
        if kind == 1:
            protocol, _, result["cupti"] = struct.unpack_from("<III", body)
            result["trouble"] = body[12:].decode(errors="replace")
            if protocol != PROTOCOL:
                raise RuntimeError(f"the library speaks version {protocol} of its protocol, this script {PROTOCOL}")
        elif kind == 2:
            names[struct.unpack_from("<I", body)[0]] = body[4:].decode(errors="replace")
        elif kind == 3:
            _, result["launches"], result["dropped"], result["untimed"], result["cost_ns"] = struct.unpack_from("<QQQQQ", body)
            for place in range(40, len(body) - 47, 48):
                _, _, name, count, _, _, _, ns = struct.unpack_from("<IIIIQQQQ", body, place)
                old = busy.get(name, (0, 0))
                busy[name] = (old[0] + count, old[1] + ns)
        elif kind == 4:
            result["ended"] = True
    result["kernels"] = {names.get(n, str(n)): {"records": c, "busy_s": ns / 1e9} for n, (c, ns) in busy.items()}
    return result


def kernels(place):
    said, heard = injected(place, place.driver("mixed", place.seconds(5)))
    return {"workload": last_json(said), "heard": heard, "beside_torch_profiler": beside_profiler(place)}


def listening(place, command):
    """As `injected`, and skips where nothing was recorded: its cost would be that of nothing."""
    said, heard = injected(place, command)
    if heard.get("trouble") or "launches" not in heard:
        raise Skipped(heard.get("trouble") or "the library sent nothing")
    return said


def torch_script(place, *more):
    done = run(["python3", "-c", "import torch; assert torch.cuda.is_available(); print(torch.__version__)"], 120)
    if done.returncode:
        raise Skipped("no torch with CUDA: " + end_of(done.stderr, 200))
    return ["python3", os.path.join(ROOT, "tests/workloads/gpu_torch.py"), str(place.seconds(20, 3)), *more]


def beside_profiler(place):
    try:
        said, heard = injected(place, torch_script(place, "profiler"), 180)
        heard["kernels"] = dict(list(heard["kernels"].items())[:10])
        return {"workload": last_json(said), "heard": heard}
    except Skipped as why:
        return {"skipped": str(why)}
    except Exception as error:  # one program that fails beside the profiler is a result
        return {"failed": end_of(str(error))}


def training(place):
    return {tier: trained(place, tier) for tier in ("launch", "kernel")}


def trained(place, tier):
    data, done = place.record("torch-" + tier, torch_script(place), tier, limit=240)
    report = place.report(data)
    on_gpu = [f for f in report["functions"] if f["total_uj"].get("gpu")]
    backward = [{"name": f["name"], "total_gpu_uj": f["total_uj"]["gpu"]} for f in on_gpu if "backward" in f["name"]]
    top = sorted(on_gpu, key=lambda f: -f["self_uj"].get("gpu", 0))[:15]
    return {"workload": last_json(done.stdout), "backward": backward, "ledger": report["ledger"], "warnings": report["meta"]["warnings"],
            "top_self": [{"name": f["name"], "gpu_uj": f["self_uj"].get("gpu", 0)} for f in top]}


def decode(place):
    """A decode loop whose graph was captured before energy-trace came: prefill against decode, and joules per token; then by all of its life."""
    tokens = place.file("tokens")
    open(tokens, "w", encoding="utf-8").close()
    script = ["python3", os.path.join(ROOT, "tests/workloads/gpu_decode.py")]
    torch_script(place)
    result = {"attached": decode_attached(place, script, tokens)}
    each = result["attached"]["alone_j"]
    for tier in ("launch", "kernel"):
        data, done = place.record("decode-" + tier, [*script, str(place.seconds(15, 4)), "0", tokens], tier, limit=120)
        said = last_json(done.stdout)
        result[tier] = decode_shares(place, data, said, each) | {"per_step_ms": step_ms(said["served"])}
    return result


def decode_attached(place, script, tokens):
    child = subprocess.Popen([*script, str(place.seconds(34, 8)), str(place.seconds(4, 1)), tokens], stdout=subprocess.PIPE, text=True)
    if child.stdout.readline().strip() != "serving":
        raise RuntimeError(f"the decode loop ended with {child.wait()}")
    time.sleep(place.seconds(5, 1))
    data, rows, stop = place.file("decode.data"), [], threading.Event()
    device = nvml.Device(place.nvml_library)
    reader = threading.Thread(target=lambda: rows.extend(nvml.sample(device, lambda: not stop.is_set(), 0.005)))
    reader.start()
    words = [*place.recorder(data), "--work", "token=file:" + tokens, "--duration", str(place.seconds(20, 4)), "-p", str(child.pid)]
    done = run(words, 90)
    stop.set(), reader.join()
    keep_rows(place, "decode", rows)
    place.keep("decode.stderr", done.stderr)
    said = last_json(child.communicate()[0])
    idle = said["open"]["joules"] / said["open"]["seconds"]
    each = {name: (said[name]["joules"] - idle * said[name]["seconds"]) / said[name]["calls"] for name in ("prefill", "decode")}
    found = decode_shares(place, data, said, each)
    inside = [row for row in rows if found["from_ns"] <= row[0] <= found["until_ns"]]
    seconds, board = (inside[-1][0] - inside[0][0]) / 1e9, (inside[-1][1] - inside[0][1]) / 1e3
    done_tokens = found["steps"]["decode"] * said["batch"]
    before = [one for one in said["served"] if one[2] < found["from_ns"] - 2e9]
    during = [one for one in said["served"] if found["from_ns"] < one[0] and one[2] < found["until_ns"]]
    return found | {
        "alone_j": each, "open_watts": idle, "board_j": board, "board_seconds": seconds, "tokens": done_tokens,
        "board_j_per_token_above_open": (board - idle * seconds) / done_tokens, "board_j_per_token": board / done_tokens,
        "per_step_ms": {"before": step_ms(before), "during": step_ms(during)}, "stderr": end_of(done.stderr, 4000),
    }


def step_ms(served):
    """Medians of what a prefill and a decode step took."""
    if not served:
        return None
    middle = lambda values: sorted(values)[len(values) // 2]
    return {"prefill": middle([(each[1] - each[0]) / 1e6 for each in served]),
            "decode": middle([(each[2] - each[1]) / 1e6 / each[3] for each in served])}


def decode_shares(place, data, said, alone):
    """What a recording gives prefill and decode, beside what each takes alone times how often it ran."""
    report = place.report(data)
    start = monotonic_of(report["meta"]["start"])
    until = start + report["meta"]["duration_ns"]
    inside = [each for each in said["served"] if start <= each[0] and each[2] <= until]
    steps = {"prefill": len(inside), "decode": sum(each[3] for each in inside)}
    found = {}
    for function in report["functions"]:
        name = function["name"].rsplit(".", 1)[-1]
        if name in steps and function["total_uj"].get("gpu"):
            joules = function["total_uj"]["gpu"] / 1e6
            found[name] = {"joules": joules, "over_alone": joules / max(1e-9, alone[name] * steps[name]), "flags": function["flags"]}
    top = sorted((f for f in report["functions"] if f["self_uj"].get("gpu")), key=lambda f: -f["self_uj"]["gpu"])[:12]
    return {"from_ns": start, "until_ns": until, "steps": steps, "functions": found, "ledger": report["ledger"],
            "work": report.get("work"), "launches": place.launches(data), "warnings": report["meta"]["warnings"],
            "top_self": [{"name": f["name"], "gpu_uj": f["self_uj"]["gpu"], "flags": f["flags"]} for f in top]}


def costs(place):
    result = {}
    for rate in (1000, 10000, 50000):
        row = {}
        for _ in range(1 if place.short else 2):
            command = place.driver("rate", place.seconds(2, 1), rate)
            tiers = {"alone": lambda: run(command, 60, check=True).stdout, "injected": lambda: listening(place, command)}
            for tier in ("off", "device", "launch", "kernel"):
                power = "none" if tier == "off" else "nvml"
                tiers["record_" + tier] = lambda tier=tier, power=power: place.record("cost-" + tier, command, tier, power)[1].stdout
            for name, measure in tiers.items():
                try:
                    work = last_json(measure())
                    entry = {"per_second": work["tiny"]["launches"] / work["seconds"], "median_call_us": work["tiny"]["median_call_us"]}
                    row.setdefault(name, []).append(entry)
                except Skipped as why:
                    row[name] = {"skipped": str(why)}
                except Exception as error:  # the other tiers still count
                    row[name] = {"failed": end_of(str(error))}
        result[str(rate)] = row
    return result


ALL = {"machine": machine, "totals": totals, "rest": rest, "meter": meter, "split": split, "attach": attach, "probes": probes,
       "kernels": kernels, "training": training, "frameworks": frameworks, "decode": decode, "costs": costs}
