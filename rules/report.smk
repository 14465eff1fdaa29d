"""Report: gather every variant's figures.

INPUTS   mod.json of every variant, best.json of those that are tuned,
         calibration.json of those in int8, layout.json and precision.json of those that choose one,
         numerics.json and latency.json of those with a device,
         results/selection.json
OUTPUTS  results/summary.json, summary.csv, index.html
"""


rule report:
    input:
        packages=plan.results_of("package.tar"),
        manifests=plan.results_of("mod.json"),
        records=plan.results_of("best.json"),
        calibrations=plan.results_of("calibration.json"),
        layouts=plan.results_of("layout.json"),
        choices=plan.results_of("precision.json"),
        numerics=plan.results_of("numerics.json"),
        latencies=plan.results_of("latency.json"),
        selection=plan.path("selection.json"),
    output:
        summary=plan.path("summary.json"),
        table=report(
            plan.path("summary.csv"), caption="captions/table.rst", category="Results"
        ),
        page=report(
            plan.path("index.html"), caption="captions/page.rst", category="Results"
        ),
    log:
        "logs/report.log",
    # Too little work for a job on a cluster.
    localrule: True
    conda:
        "../envs/tvmake.yaml"
    resources:
        mem_mb=job_resources.memory_mb("report"),
        runtime=job_resources.minutes("report"),
    params:
        options=plan.options("report"),
        code=plan.fingerprint("report"),
    message:
        "report"
    shell:
        # Options for thousands of variants are longer than an argument may be.
        "printf %s {params.options:q} | tvmake step report --options - --selection {input.selection:q}"
        " --summary {output.summary:q} --table {output.table:q} --page {output.page:q} > {log:q} 2>&1"
