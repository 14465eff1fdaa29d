"""Python's collector of circular garbage, told that a plan of many jobs is no garbage.

Every job is hundreds of objects that stay. By default the collector looks through them again and again while there are
more and more: a quarter of the time of planning 10,000 jobs.
"""

import gc

OBJECTS = 200_000
"""New objects between two looks at the youngest ones; some 50 MB. Python's own figure is 700."""


def collect_seldom() -> None:
    """Look for garbage less often, in this process."""
    gc.set_threshold(OBJECTS, *gc.get_threshold()[1:])
