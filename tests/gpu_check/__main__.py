"""Checks on a GPU, real or simulated: `python3 tests/gpu_check OUT.json [--short] [--scale F] [--programs FOLDER] [--only PART,…] [--keep TAR]`.

Every part gives its result, `skipped` with the reason, or `failed` with the error; none ends the others. The file is written anew after each.
Changes no setting of the device. Leaves out judging the figures.
"""

import argparse
import datetime
import json
import os
import sys
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import parts  # noqa: E402
from place import ROOT, Place, Skipped  # noqa: E402


def main():
    options = argparse.ArgumentParser()
    options.add_argument("out")
    options.add_argument("--short", action="store_true")
    options.add_argument("--scale", type=float, default=1.0, help="all lengths times this")
    options.add_argument("--programs", default=os.path.join(ROOT, ".gpu_check"))
    options.add_argument("--keep", help="recordings, logs and what NVML was read as go here, as a tar.gz")
    options.add_argument("--only", default=",".join(parts.ALL))
    options = options.parse_args()
    place = Place(options.programs, options.short, options.scale)
    result = {"schema": "energy-trace/gpu-check/1", "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
              "simulated": place.simulated, "short": options.short, "driver": None, "device": None, "parts": {}}
    for name, part in parts.ALL.items():
        if name not in options.only.split(","):
            continue
        start = time.monotonic()
        try:
            found = part(place)
        except Skipped as why:
            found = {"skipped": str(why)}
        except Exception:
            found = {"failed": traceback.format_exc(limit=-4)}
        found["took_s"] = round(time.monotonic() - start, 1)
        result["parts"][name] = found
        if name == "machine":
            result["driver"], result["device"] = found.get("driver"), found.get("device")
        with open(options.out, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
        print(f"{name}: {found.get('skipped') or found.get('failed') or 'done'} ({found['took_s']} s)", flush=True)
        if options.keep:
            place.pack(options.keep)


main()
