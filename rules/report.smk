rule report:
    """Gather the results of all variants.
    INPUTS   package.tar, mod.json and source.json of every variant, best.json of those that are tuned,
             calibration.json of those in int8, layout.json and precision.json of those that choose one,
             numerics.json and latency.json of those with a device,
             results/selection.json
    OUTPUTS  results/summary.json, summary.csv, index.html
    """
    input:
        **plan.inputs("report"),
    output:
        **plan.outputs(
            "report",
            captions={"table": "captions/table.rst", "page": "captions/page.rst"},
        ),
    log:
        **plan.logs("report"),
    # Too little work for a job on a cluster.
    localrule: True
    conda:
        plan.conda
    container:
        plan.image
    resources:
        **plan.resources("report"),
    params:
        **plan.params("report"),
    shell:
        # Options for thousands of variants exceed the length limit of an argument.
        "printf %s {params.options:q} | tvmake step report --options - --selection {input.selection:q}"
        " --summary {output.summary:q} --table {output.table:q} --page {output.page:q} > {log:q} 2>&1"
