"""More of everything than anybody expects: mappings, processes, threads."""


def mappings(place):
    """Executable mappings made and taken away in a loop, 30,000 of them at a time."""
    place.run(place.burn(), "mappings", place.left(), 30_000)


def forks(place):
    """Processes that live a millisecond, 50 at a time."""
    place.run(place.burn(), "forks", place.left(), 50)


def threads(place):
    """Threads that live a millisecond, 50 at a time."""
    place.run(place.burn(), "threads", place.left(), 50)
