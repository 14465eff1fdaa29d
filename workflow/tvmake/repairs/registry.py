"""All repairs by name, and the modules that implement them."""

import re
from collections import defaultdict
from pathlib import Path

from tvmake.repairs.adreno import ADRENO
from tvmake.repairs.code_generation import CODE_GENERATION
from tvmake.repairs.device_code import DEVICE_CODE
from tvmake.repairs.frameworks import FRAMEWORKS
from tvmake.repairs.graph import GRAPH
from tvmake.repairs.imports import IMPORT
from tvmake.repairs.repair import Repair
from tvmake.repairs.runtime import RUNTIME
from tvmake.repairs.schedules import SCHEDULES
from tvmake.repairs.workflow import WORKFLOW

ALL = (*IMPORT, *GRAPH, *SCHEDULES, *ADRENO, *CODE_GENERATION, *DEVICE_CODE, *RUNTIME, *WORKFLOW, *FRAMEWORKS)

REPAIRS: dict[str, Repair] = {repair.name: repair for repair in sorted(ALL, key=lambda repair: repair.name)}

PACKAGE = Path(__file__).resolve().parents[1]

MENTION = re.compile(r"\bRepairs?: ((?:`[a-z0-9-]+`(?:,\s+)?)+)")


def modules_by_repair() -> dict[str, tuple[str, ...]]:
    """Return the modules that name each repair, as paths below the package."""
    modules: defaultdict[str, set[str]] = defaultdict(set)
    for path in PACKAGE.rglob("*.py"):
        if PACKAGE / "repairs" in path.parents:
            continue
        for names in MENTION.findall(path.read_text(encoding="utf-8")):
            for name in re.findall(r"`([a-z0-9-]+)`", names):
                modules[name].add(path.relative_to(PACKAGE).as_posix())
    return {name: tuple(sorted(paths)) for name, paths in modules.items()}
