"""A program that means harm to whoever records it: `python3 tests/hostile PART|all SECONDS FOLDER`, `list`, or `clean FOLDER`.

Each part does one thing, for so many seconds, in that folder, as whoever runs it; `all` does all of them at once. Parts that need to know
more read it from the environment: HOSTILE_OUTPUTS (paths of outputs, one a line, that are swapped for links and FIFOs), HOSTILE_GONE (a
folder that is removed half-way), HOSTILE_STUCK (a file that is never read), HOSTILE_VICTIMS (pids for whom perf maps are written), HOSTILE_RECORDS. Leaves out judging
what became of the recording (`tests/hostile.rs`).
"""
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import files  # noqa: E402
import jit  # noqa: E402
import paths  # noqa: E402
import storms  # noqa: E402
import stuck  # noqa: E402
import tiny  # noqa: E402
from place import Place, say  # noqa: E402

PARTS = {
    "fifo": files.fifo,
    "longname": files.longname,
    "truncate": files.truncate,
    "bombs": files.bombs,
    **{"bomb" + kind: files.one_bomb(kind) for kind in files.KINDS},
    "debuglink": files.debuglink,
    "maps": jit.maps,
    "jitdump": jit.jitdump,
    "names": lambda place: place.python("python_frames.py", "names", place.left()),
    "frames": lambda place: place.python("python_frames.py", "spoiled", place.left()),
    "libraries": tiny.libraries,
    "unwinding": tiny.unwinding,
    "mappings": storms.mappings,
    "forks": storms.forks,
    "threads": storms.threads,
    "stuck": stuck.stuck,
    "arguments": stuck.arguments,
    "rows": stuck.rows,
    "words": paths.words,
    "outputs": paths.outputs,
    "folder": paths.folder,
}
# Those that others do already, and what takes a worker's memory.
ALONE = [*("bomb" + kind for kind in files.KINDS), "rows"]


def everything(seconds, folder):
    """Every part in a process of its own; the worst status of them."""
    own = [sys.executable, os.path.dirname(os.path.abspath(__file__))]
    os.environ["HOSTILE_BURN"] = Place(folder, seconds).burn()
    running = {
        part: subprocess.Popen([*own, part, str(seconds), os.path.join(folder, part)], stdin=subprocess.DEVNULL)
        for part in PARTS
        if part not in ALONE
    }
    for part, process in running.items():
        if process.wait() != 0:
            say(f"hostile {part} ended with {process.returncode}")
    return max(abs(process.returncode) for process in running.values())


def main(words):
    if words[:1] == ["list"]:
        print("\n".join(PARTS))
    elif len(words) == 2 and words[0] == "clean":
        for folder in [words[1], *(os.path.join(words[1], part) for part in PARTS)]:
            jit.clean(folder)
    elif len(words) == 3 and words[0] == "all":
        return everything(float(words[1]), words[2])
    elif len(words) == 3 and words[0] in PARTS:
        PARTS[words[0]](Place(words[2], float(words[1])))
    else:
        say(__doc__)
        return 2
    return 0


sys.exit(main(sys.argv[1:]))
