"""Names that a terminal would obey, and paths that change while a recorder uses them."""
import os
import shutil
import time

# Escape, title, bell, colours, C1, a line separator, a mark that turns text around, a tag, and quotes.
WORDS = "\x1b]0;owned\x07\x1b[31m\x9b31m\r\u2028\u202egnp.\u2066</title><script>\"'&"


def words(place):
    """Names of the program, its arguments and its threads with control characters."""
    name = WORDS.replace("/", "")
    program = place.copy(place.burn(), name)
    while place.left() > 0:
        place.run(program, "spin", min(1, place.left()), WORDS)


def outputs(place):
    """Files that a recorder writes, by the paths in HOSTILE_OUTPUTS: swapped for links to a file that is not to be touched, for FIFOs and
    for folders, in turns."""
    precious = place.path("precious")
    with open(precious, "w") as file:
        file.write("not to be touched")
    number = 0
    while place.left() > 0:
        for path in filter(None, os.environ.get("HOSTILE_OUTPUTS", "").split("\n")):
            swap(path, precious, number)
        number += 1
        time.sleep(0.01)


def swap(path, precious, number):
    """The last round may be a FIFO, a link or a folder: whatever the clock says."""
    new = f"{path}.{os.getpid()}"
    try:
        [os.symlink, lambda _, to: os.mkfifo(to), lambda _, to: os.mkdir(to)][number % 3](precious, new)
        if os.path.isdir(path) and not os.path.islink(path):
            os.rmdir(path)
        elif os.path.isdir(new) and not os.path.islink(new):
            os.unlink(path)
        os.rename(new, path)
    except OSError:
        time.sleep(0.001)


def folder(place):
    """Takes away the folder in HOSTILE_GONE, with all that is in it, half-way."""
    gone = os.environ.get("HOSTILE_GONE")
    time.sleep(place.left() / 2)
    if gone:
        shutil.rmtree(gone, ignore_errors=True)
    place.run(place.burn(), "spin", place.left())
