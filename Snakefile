"""tvmake: from trained models to validated packages.

The config says which models, precisions and targets; the plan says what must be made for them; each rule file says
how one stage is asked for it. Run it through `tvmake make`, or through snakemake itself.
"""

from snakemake.exceptions import WorkflowError

from tvmake.engine.snakefile import open_workflow, rule_files
from tvmake.errors import TvmakeError

if not config:

    configfile: "config/config.yaml"


try:
    opened = open_workflow(config, workflow, ancient)
except TvmakeError as error:
    raise WorkflowError(str(error)) from None

plan, sources, job_resources = opened.plan, opened.sources, opened.resources


wildcard_constraints:
    # results/tuning holds what the models share; its files look like those of a model otherwise.
    model=opened.scope.names("model", r"(?!tuning/)[^/]+"),
    precision=opened.scope.names("precision", "[^/]+"),
    target=opened.scope.names("target", "[^/]+"),
    layout="[^/]+",
    number=r"\d+",
    workload="[0-9a-f]{64}",


localrules:
    all,


rule all:
    default_target: True
    input:
        opened.goals(),


# A stage has a rule file of its own; which files there are decides.
for file in rule_files():

    include: str(file)


onstart:
    plan.write_resolved_config()


onsuccess:
    opened.keep()


onerror:
    opened.keep()
