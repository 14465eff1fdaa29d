"""tvmake: from trained models to validated packages.

The config says which models, precisions and targets; the plan says what must be made for them; each rule file says
how one stage is asked for it. Run it through `tvmake make`, or through snakemake itself.
"""

import os
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

from tvmake.errors import TvmakeError
from tvmake.plan import Plan

# Rules call `tvmake step …`: the one installed beside this interpreter, on cluster nodes as well.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

if not config:

    configfile: "config/config.yaml"


try:
    plan = Plan.from_values(config, workflow.configfiles)
except TvmakeError as error:
    raise WorkflowError(str(error)) from None


wildcard_constraints:
    model="[^/]+",
    precision="[^/]+",
    target="[^/]+",


include: "rules/report.smk"
include: "rules/import.smk"
include: "rules/reference.smk"
include: "rules/transform.smk"
include: "rules/build.smk"
include: "rules/export.smk"
include: "rules/deploy.smk"
include: "rules/validate.smk"
include: "rules/benchmark.smk"


onstart:
    plan.write_resolved_config()
