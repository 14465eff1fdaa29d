checkpoint budget:
    """Spread the trials of all variants of a target over their kernels, each kernel once.
    INPUTS   results/{model}/{precision}/{target}/tasks.json and workloads/ of every tuned variant, receipts of the previous round
    OUTPUTS  results/tuning/{target}/round{number}/budget.json, workloads/
    """
    input:
        **plan.inputs("budget"),
    output:
        **plan.outputs("budget"),
    log:
        **plan.logs("budget"),
    # Too little work for a job on a cluster.
    localrule: True
    conda:
        plan.conda
    container:
        plan.image
    resources:
        **plan.resources("budget"),
    params:
        **plan.params("budget"),
    shell:
        # Options for thousands of variants exceed the length limit of an argument.
        "printf %s {params.options:q} | tvmake step budget {input.tasks:q} {params.receipts:q} --options -"
        " --budget {output.budget:q} --kernels {output.kernels:q} > {log:q} 2>&1"
