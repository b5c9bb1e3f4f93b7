"""What the checks share: where the programs and libraries are, running them, and what a part that cannot run says. Leaves out every check."""

import glob
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Skipped(Exception):
    """A part cannot run here; the text says why."""


def end_of(text, limit=1500):
    text = text.strip()
    return text if len(text) <= limit else "… " + text[-limit:]


class Place:
    """Programs, libraries and lengths of this run."""

    def __init__(self, programs, short, scale=1.0):
        self.programs, self.short, self.scale = os.path.abspath(programs), short, scale
        self.folder = tempfile.mkdtemp(prefix="gpu_check-")
        os.chmod(self.folder, 0o755)
        self.simulated = "SIMGPU_DIR" in os.environ
        self.product = self.program("energy-trace")
        self.facts = self.program("gpu_facts")
        self.injection = self.program("libenergy_trace_cupti.so")
        self.nvml_library = find_library("libnvidia-ml.so.1")
        self.cuda_library = find_library("libcuda.so.1")
        self.cupti_library = find_cupti()
        self.records = None

    def program(self, name):
        found = os.path.join(self.programs, name)
        return found if os.path.exists(found) else None

    def seconds(self, whole, short=2):
        return short if self.short else whole * self.scale

    def file(self, name):
        return os.path.join(self.folder, name)

    def keep(self, name, text):
        """Puts a text beside the recordings, for `--keep`."""
        with open(self.file(name), "w", encoding="utf-8") as file:
            file.write(text)

    def pack(self, archive, most=15 << 20):
        """Recordings, logs and rows as a tar.gz of at most so many bytes: the smallest files first."""
        names = [n for n in os.listdir(self.folder) if n.endswith((".data", ".stderr", ".log", ".csv"))]
        sizes = {n: os.path.getsize(self.file(n)) for n in names}
        with open(archive, "wb") as raw, tarfile.open(fileobj=raw, mode="w:gz", compresslevel=6) as tar:
            for name in sorted(names, key=sizes.get):
                if raw.tell() + sizes[name] // 2 < most:
                    tar.add(self.file(name), name)

    def need(self, what, why):
        if not what:
            raise Skipped(why)
        return what

    def driver_workload(self):
        """`gpu_driver`, compiled here where there is a compiler, else as it was carried."""
        built = self.file("gpu_driver")
        if not os.path.exists(built):
            source = os.path.join(ROOT, "tests/workloads/gpu_driver.c")
            compiler = shutil.which("cc") or shutil.which("gcc")
            if compiler:
                done = subprocess.run([compiler, "-g", "-O1", "-fno-optimize-sibling-calls", "-o", built, source, "-ldl"],
                                      capture_output=True, text=True)
                if done.returncode == 0:
                    return built
            return self.need(self.program("gpu_driver"), "no C compiler, and gpu_driver was not carried")
        return built

    def driver(self, mode, seconds, *more):
        return [self.driver_workload(), str(seconds), "0", mode, *map(str, more)]

    def record(self, name, command, tier="launch", power="nvml", env=None, limit=120):
        """Records a command: its recording's file and the command's own output. Skips where the product cannot record here."""
        self.need(self.product, "energy-trace was not carried")
        if self.records is not None:
            raise Skipped(self.records)
        data = self.file(name + ".data")
        done = run([*self.recorder(data, tier, power), "--", *command], limit, env)
        self.keep(name + ".stderr", done.stderr)
        if done.returncode == 125 or (done.returncode and not os.path.exists(data)):
            raise Skipped("energy-trace cannot record: " + end_of(done.stderr))
        if done.returncode:
            raise RuntimeError(f"{command} ended with {done.returncode}: {end_of(done.stderr)}")
        return data, done

    def recorder(self, data, tier="launch", power="nvml"):
        """The command that records, but for what."""
        words = [self.product, "record", "--no-svg", "--as-root", "--power", power, "--gpu", tier, "-o", data]
        if self.nvml_library and os.path.isabs(self.nvml_library):
            words += ["--nvml-lib", self.nvml_library]
        return words

    def report(self, data):
        done = run([self.product, "report", "--format", "json", data], 120)
        if done.returncode:
            raise RuntimeError(end_of(done.stderr))
        return json.loads(done.stdout)

    def launches(self, data):
        return json.loads(run([self.need(self.facts, "gpu_facts was not carried"), "launches", data], 120, check=True).stdout)


def run(command, limit, env=None, check=False):
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit, stdin=subprocess.DEVNULL,
                          env={**os.environ, **(env or {})}, errors="replace")
    if check and done.returncode:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}: {end_of(done.stderr)}")
    return done


def last_json(text):
    """The last line of a program's output that is an object of JSON."""
    lines = [line for line in text.splitlines() if line.startswith("{")]
    if not lines:
        raise RuntimeError("the workload printed no JSON: " + end_of(text))
    return json.loads(lines[-1])


def find_library(name):
    """The library by LD_LIBRARY_PATH, the loader's cache and the usual places; the bare name's absence is `None`."""
    folders = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    for folder in filter(None, folders):
        if os.path.exists(os.path.join(folder, name)):
            return os.path.abspath(os.path.join(folder, name))
    try:
        cache = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True).stdout
    except OSError:
        cache = ""
    found = re.search(rf"{re.escape(name)} \(.*x86-64.*=> (\S+)", cache)
    if found:
        return found.group(1)
    usual = ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/local/cuda/lib64"]
    return next((path for path in (os.path.join(folder, name) for folder in usual) if os.path.exists(path)), None)


def find_cupti():
    """CUPTI of the toolkit or of pip's package."""
    for name in ("libcupti.so.13", "libcupti.so.12"):
        found = find_library(name)
        if found:
            return found
    patterns = ["/usr/local/cuda*/extras/CUPTI/lib64/libcupti.so.1[23]", "/usr/local/cuda*/targets/x86_64-linux/lib/libcupti.so.1[23]"]
    for site in site_folders():
        patterns += [f"{site}/nvidia/cu13/lib/libcupti.so.13", f"{site}/nvidia/cuda_cupti/lib/libcupti.so.1[23]"]
    found = [path for pattern in patterns for path in sorted(glob.glob(pattern))]
    return found[-1] if found else None


def site_folders():
    python = shutil.which("python3") or "python3"
    done = subprocess.run([python, "-c", "import site, sys; print('\\n'.join(p for p in sys.path if 'packages' in p))"],
                          capture_output=True, text=True)
    return done.stdout.split()
