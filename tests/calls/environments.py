"""Virtual environments of the programs, in the cache folder; those of `cargo xtask setup --frameworks` serve where they are there.

Leaves out PyTorch itself: its environment needs stand-ins for NVIDIA's libraries (`xtask/src/torch_stubs.rs`), and `calls` sees it by a path file.
"""
import os
import subprocess
import sys

CACHE = os.environ.get("ENERGY_TRACE_CACHE") or os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "energy-trace")
VENVS = os.path.join(CACHE, "venvs")

# Packages, and those that are installed without what they ask for: gigabytes of NVIDIA's libraries that these programs do not use.
PACKAGES = {
    "torch": None,
    "tensorflow": (["tensorflow-cpu==2.21.0"], []),
    "tensorflow-2.12": (["tensorflow-cpu==2.12.1"], []),
    "onnx": (["onnxruntime==1.31.1", "onnx==1.23.2"], []),
    "mxnet": (["mxnet==1.9.1", "numpy<2"], []),
    "calls": (
        [
            "scikit-learn",
            "pandas",
            "scipy",
            "jax[cpu]",
            "transformers",
            "lightning-utilities",
            "packaging",
            "psutil",
            "pyyaml",
            "tqdm",
            "sympy",
            "networkx",
            "jinja2",
            "aiohttp",
        ],
        ["xgboost", "lightning", "pytorch-lightning", "torchmetrics", "accelerate"],
    ),
}
PIP = ["-m", "pip", "install", "--quiet", "--no-cache-dir", "--no-input", "--disable-pip-version-check"]


def ensure(name):
    """The Python of an environment, made if it is not there."""
    folder = os.path.join(VENVS, name)
    python = os.path.join(folder, "bin/python")
    if os.path.exists(os.path.join(folder, "requirements.txt")):
        return python
    if PACKAGES[name] is None:
        sys.exit(f"calls: no environment {folder}; `cargo xtask setup --frameworks` makes it")
    whole, alone = PACKAGES[name]
    print(f"calls: installing {', '.join(whole + alone)} from PyPI into {folder}", file=sys.stderr)
    subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
    subprocess.run([python, *PIP, *whole], check=True)
    if alone:
        subprocess.run([python, *PIP, "--no-deps", *alone], check=True)
        see_torch(folder)
    with open(os.path.join(folder, "requirements.txt"), "w", encoding="utf-8") as out:
        out.write("\n".join(whole + alone) + "\n")
    return python


def see_torch(folder):
    """A path file: the environment sees PyTorch's, whose Python has the same version."""
    version = f"python3.{sys.version_info.minor}"
    packages = os.path.join(os.path.dirname(ensure("torch")), "../lib", version, "site-packages")
    with open(os.path.join(folder, "lib", version, "site-packages/torch.pth"), "w", encoding="utf-8") as out:
        out.write(os.path.normpath(packages) + "\n")
