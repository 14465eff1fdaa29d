"""tvmake: from trained models to validated packages.

The config names models, precisions and targets. The plan derives from it what must be made, and `plan.inputs("build")` is
what the rule `build` reads, as its stage describes it: `workflow/tvmake/stages/`, docs/reference/stages.md. Each rule file has
the command of one stage. Run the workflow with `tvmake make`, or with snakemake itself.
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
    opened.plan.write_resolved_config()


onsuccess:
    opened.keep()


onerror:
    opened.keep()
