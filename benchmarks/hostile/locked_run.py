"""A run and its lock, from which locks and bundles are derived."""

import os
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def locked_run(samples: Path) -> Iterator[tuple[Any, Any]]:
    """A plan and its lock, made in ``samples / "run"``, which is the working directory inside this block."""
    from tests.lock.made import BEST, fill, lock, make_run
    from tests.provenance.examples import make_library
    from tests.records.examples import record

    from tvmake.records.store import RecordStore

    os.environ["TVMAKE_HOME"] = str(samples / "home")
    (samples / "run").mkdir()
    with chdir(samples / "run"):
        plan = make_run(samples / "run", make_library(samples))
        fill(RecordStore(), record(0, ms=1.0), BEST)
        yield plan, lock(plan)
