"""All repairs, by name."""

from tvmake.repairs.adreno import ADRENO
from tvmake.repairs.code_generation import CODE_GENERATION
from tvmake.repairs.device_code import DEVICE_CODE
from tvmake.repairs.graph import GRAPH
from tvmake.repairs.imports import IMPORT
from tvmake.repairs.repair import Repair
from tvmake.repairs.runtime import RUNTIME
from tvmake.repairs.schedules import SCHEDULES
from tvmake.repairs.workflow import WORKFLOW

REPAIRS: dict[str, Repair] = {
    repair.name: repair
    for repair in sorted(
        (*IMPORT, *GRAPH, *SCHEDULES, *ADRENO, *CODE_GENERATION, *DEVICE_CODE, *RUNTIME, *WORKFLOW),
        key=lambda repair: repair.name,
    )
}
