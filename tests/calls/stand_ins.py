"""Runs in the recorded environment: stand_ins.py NAMES PROGRAM TRUTH looks names of FECoM up and calls a stand-in for each, on a line of its own of
a program that it writes; stand_ins.py --compare TRUTH says of names that energy-trace gave to these lines whether they are the same objects.

A stand-in is a loop of some milliseconds with the file, name, qualified name and first line of the code that it stands for, and with the class
that the call is made on as its first variable. Leaves out recording (`fecom.py`).
"""
import importlib
import inspect
import json
import os
import sys
import time
import types

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from names import resolve

SECONDS = 0.04
NOTHING, OWN, NO_CODE = "nothing in this TensorFlow", "of the program itself", "without a Python function"

# What a call returns, where the name goes on with a method of that: FECoM writes chains of calls without their types.
DATASET, TENSOR, MODEL = "tensorflow.data.Dataset", "tensorflow.__internal__.EagerTensor", "keras.Model"
RETURNS = {
    "clone_model": MODEL,
    "load_model": MODEL,
    "MobileNetV2": MODEL,
    "encoder": "keras.Sequential",
    "decoder": "keras.Sequential",
    "from_keras_model": "tensorflow.lite.TFLiteConverter",
    "model_to_estimator": "tensorflow.estimator.Estimator",
    "constant": "tensorflow.Tensor",
    "expand_dims": "tensorflow.Tensor",
    "stack": "tensorflow.Tensor",
    "write": "tensorflow.TensorArray",
    "embeddings": "tensorflow.Variable",
}
# Attributes that objects have and their classes do not, by the tutorials' own models too.
OWN_ATTRIBUTES = ("encoder", "decoder", "embeddings")


def without_arguments(name):
    """`a(b).c()` as `a().c()`."""
    depth, kept = 0, []
    for letter in name:
        depth -= letter == ")"
        if depth == 0:
            kept.append(letter)
        depth += letter == "("
    return "".join(kept)


def returned(value, part):
    """What a call gives, as a class; `None` where nobody knows."""
    if inspect.isclass(value):
        return value
    if part in RETURNS:
        return resolve(RETURNS[part])
    module = getattr(value, "__module__", "") or ""
    if "dataset" in part or ".data." in module or (getattr(value, "__qualname__", "").startswith("Dataset")):
        return resolve(DATASET)
    return resolve(TENSOR) if module.startswith("tensorflow") else None


def look_up(name):
    """The class that a call is made on and the function that is called; or why there is none."""
    value = importlib.import_module("tensorflow")
    on, last = None, ""
    steps = without_arguments(name).removesuffix("()").removeprefix("tensorflow.").replace("()", ".()").split(".")
    for number, part in enumerate(steps):
        if part == "()":
            # A call in the middle: of an object where the call before made one.
            value, on = (returned(value, last), None) if last != "()" else (resolve(TENSOR), None)
            if value is None:
                return NOTHING
            if number + 1 == len(steps):
                on, value = value, getattr(value, "__call__", None)
            last = part
            continue
        holder = value
        if number and not inspect.ismodule(holder) and not inspect.isclass(holder):
            holder = returned(holder, last)
        if holder is None:
            return NOTHING
        found = getattr(holder, part, None)
        if found is None and part in OWN_ATTRIBUTES:
            found = resolve(RETURNS[part])
        if found is None and (holder is resolve(TENSOR) or steps[number - 1] == "()"):
            # What a model or a loss gives where it is called.
            holder = resolve("tensorflow.Tensor") if part == "set_shape" else resolve(TENSOR)
            found = getattr(holder, part, None)
        if found is None:
            is_model = inspect.isclass(holder) and holder.__module__.split(".")[0] in ("keras", "tensorflow") and "keras" in name
            return OWN if is_model and holder is not resolve("tensorflow.keras.utils") else NOTHING
        on, value, last = (holder if inspect.isclass(holder) else None), found, part
    return on, value


def undecorated(value):
    """The function below its decorators, those too that do not say what they wrap."""
    value = inspect.unwrap(getattr(value, "__func__", value))
    inside = [cell.cell_contents for cell in getattr(value, "__closure__", None) or ()]
    methods = [found for found in inside if inspect.isfunction(found) and found.__code__.co_qualname.count(".") == 1]
    return methods[0] if "<locals>" in getattr(value, "__qualname__", "") and len(methods) == 1 else value


def code_of(value):
    """The Python code that runs where it is called, below its decorators; for a class that of its constructor."""
    if inspect.isclass(value):
        made = [getattr(value, name, None) for name in ("__init__", "__new__")]
        return next((code for code in map(code_of, made) if code), None)
    value = undecorated(value)
    code = getattr(value, "__code__", None)
    if code is None and hasattr(type(value), "__call__") and not isinstance(value, types.BuiltinFunctionType):
        code = getattr(inspect.unwrap(type(value).__call__), "__code__", None)
    return code if code is None or "-packages/" in code.co_filename else None


def loop(first, until, clock):
    """What stand-ins run."""
    while clock() < until:
        pass


def stand_in(code):
    made = loop.__code__.replace(
        co_filename=code.co_filename, co_name=code.co_name, co_qualname=code.co_qualname, co_firstlineno=code.co_firstlineno
    )
    return types.FunctionType(made, {})


def run(names, program, truth):
    with open(names, encoding="utf-8") as text:
        names = text.read().splitlines()
    found, calls, lines = [], [], []
    for name in names:
        place = look_up(name)
        code = code_of(place[1]) if isinstance(place, tuple) else None
        why = place if isinstance(place, str) else None if code else NO_CODE
        found.append({"name": name, "why": why})
        if code:
            on = place[0] or (place[1] if inspect.isclass(place[1]) else None)
            calls.append((stand_in(code), on))
            lines.append(f"CALLS[{len(calls) - 1}][0](CALLS[{len(calls) - 1}][1], clock() + {SECONDS}, clock)")
            found[-1]["line"] = len(lines)
    with open(program, "w", encoding="utf-8") as out:
        out.write("\n".join(lines))
    with open(truth, "w", encoding="utf-8") as out:
        json.dump(found, out)
    exec(compile("\n".join(lines), program, "exec"), {"CALLS": calls, "clock": time.process_time})


def compare(truth):
    said = json.load(sys.stdin)
    with open(truth, encoding="utf-8") as text:
        found = json.load(text)
    verdicts = []
    for entry in found:
        if entry["why"]:
            verdicts.append((entry["name"], entry["why"], ""))
            continue
        _, kind, api = said.get(str(entry["line"]), (0, "", "[no sample]"))
        _, value = look_up(entry["name"])
        named = resolve(api) if kind == "call" else None
        same = named is not None and (named is value or code_of(named) is code_of(value))
        is_public = not any(part.startswith("_") and not part.startswith("__") for part in api.split("."))
        word = "found" if same and is_public else "found by its real name only" if same else "another object" if named is not None else "not named"
        verdicts.append((entry["name"], word, api))
    json.dump(verdicts, sys.stdout)


if __name__ == "__main__":
    compare(sys.argv[2]) if sys.argv[1] == "--compare" else run(*sys.argv[1:])
