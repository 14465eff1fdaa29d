"""tvmake: from trained models to validated packages.

The config says which models, precisions and targets; the plan says what must be made for them; each rule file says
how one stage is asked for it. Run it through `tvmake make`, or through snakemake itself.
"""

from snakemake.exceptions import WorkflowError

from tvmake import by_content, house
from tvmake.cache import settings as cache
from tvmake.errors import TvmakeError
from tvmake.plan.collector import collect_seldom
from tvmake.plan.needs import needs_of
from tvmake.plan.plan import Plan
from tvmake.records import shared_by_nodes

house.put_tvmake_on_path()
collect_seldom()

if not config:

    configfile: "config/config.yaml"


try:
    plan = Plan.from_values(config, workflow.configfiles)
    if workflow.remote_exec:
        shared_by_nodes.check()
except TvmakeError as error:
    raise WorkflowError(str(error)) from None

cache.announce(plan.config.cache)
by_content.compare_by_content(workflow)

needs = needs_of(plan, workflow)


wildcard_constraints:
    # results/tuning holds what the models share; its files look like those of a model otherwise.
    model="(?!tuning/)[^/]+",
    precision="[^/]+",
    target="[^/]+",
    layout="[^/]+",
    number=r"\d+",
    workload="[0-9a-f]{64}",


localrules:
    all,


rule all:
    default_target: True
    input:
        plan.goals(),


include: "rules/import.smk"
include: "rules/reference.smk"
include: "rules/transform.smk"
include: "rules/choose_layout.smk"
include: "rules/tuning.smk"
include: "rules/extract.smk"
include: "rules/budget.smk"
include: "rules/tune.smk"
include: "rules/pick_best.smk"
include: "rules/build.smk"
include: "rules/export.smk"
include: "rules/attest.smk"
include: "rules/deploy.smk"
include: "rules/validate.smk"
include: "rules/benchmark.smk"
include: "rules/report.smk"


onstart:
    plan.write_resolved_config()


onsuccess:
    by_content.keep_digests()


onerror:
    by_content.keep_digests()
