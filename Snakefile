"""tvmake: from trained models to validated packages.

The config names models, precisions and targets. The plan derives the jobs from it, and `plan.inputs("build")` are
the inputs of the rule `build` from its stage's descriptor: `workflow/tvmake/stages/`, docs/reference/stages.md. Each rule
file has the command of one stage. Run the workflow with `tvmake make`, or with snakemake itself.
"""

from snakemake.exceptions import WorkflowError

from tvmake.engine.snakefile import open_workflow, rule_files
from tvmake.errors import TvmakeError

if not config:

    configfile: "config/config.yaml"


try:
    opened = open_workflow(config, workflow, checkpoints)
except TvmakeError as error:
    raise WorkflowError(str(error)) from None

plan = opened.rules


wildcard_constraints:
    # results/tuning contains what the models share; its files would match a model's patterns.
    # A model with functions has their joined packages where another one has its own.
    model=opened.scope.names("model", rf"(?!(?:tuning|{opened.scope.groups()})/)[^/]+"),
    group=opened.scope.groups(),
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


# Each stage has its own rule file.
for file in rule_files():

    include: str(file)


onstart:
    opened.plan.write_resolved_config()


onsuccess:
    opened.keep()


onerror:
    opened.keep()
