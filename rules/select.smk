rule select:
    """Choose the fastest variant of each model on each device that meets all goals.
    INPUTS   package.tar, mod.json and source.json of every variant, best.json of those that are tuned,
             calibration.json of those in int8, layout.json and precision.json of those that choose one,
             numerics.json and latency.json of those with a device
    OUTPUTS  results/selection.json, results/best/ with {model}/{device}/package.tar and choice.json
    """
    input:
        **plan.inputs("select"),
    output:
        **plan.outputs("select"),
    log:
        **plan.logs("select"),
    # Too little work for a job on a cluster.
    localrule: True
    conda:
        plan.conda
    container:
        plan.image
    resources:
        **plan.resources("select"),
    params:
        **plan.params("select"),
    shell:
        # Options for thousands of variants exceed the length limit of an argument.
        "printf %s {params.options:q} | tvmake step select --options -"
        " --selection {output.selection:q} --best {output.best:q} > {log:q} 2>&1"
