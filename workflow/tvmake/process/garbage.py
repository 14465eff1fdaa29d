"""Python's garbage collector in processes that plan."""

import gc

NEW_OBJECTS = 200_000
"""New objects between two collections of Python's youngest generation, some 50 MB. The objects of a plan live long: with the default
(700 objects), a quarter of the time to plan 10,000 jobs goes into collections."""


def collect_rarely() -> None:
    """Collect garbage rarely from now on."""
    gc.set_threshold(NEW_OBJECTS, *gc.get_threshold()[1:])
