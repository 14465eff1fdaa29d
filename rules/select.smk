"""Select: for each model and device the fastest variant that meets all goals.

INPUTS   mod.json of every variant, best.json of those that are tuned,
         calibration.json of those in int8, layout.json and precision.json of those that choose one,
         numerics.json and latency.json of those with a device
OUTPUTS  results/selection.json, results/best/ with {model}/{device}/package.tar and choice.json
"""


rule select:
    input:
        packages=plan.results_of("package.tar"),
        manifests=plan.results_of("mod.json"),
        records=plan.results_of("best.json"),
        calibrations=plan.results_of("calibration.json"),
        layouts=plan.results_of("layout.json"),
        choices=plan.results_of("precision.json"),
        numerics=plan.results_of("numerics.json"),
        latencies=plan.results_of("latency.json"),
    output:
        selection=plan.path("selection.json"),
        best=directory(plan.path("best")),
    log:
        "logs/select.log",
    # Too little work for a job on a cluster.
    localrule: True
    conda:
        "../envs/tvmake.yaml"
    resources:
        mem_mb=job_resources.memory_mb("select"),
        runtime=job_resources.minutes("select"),
    params:
        options=plan.options("select"),
        code=plan.fingerprint("select"),
    message:
        "select"
    shell:
        # Options for thousands of variants are longer than an argument may be.
        "printf %s {params.options:q} | tvmake step select --options -"
        " --selection {output.selection:q} --best {output.best:q} > {log:q} 2>&1"
