rule pick_best:
    """Choose the fastest record of each kernel of a variant with a correct output.
    INPUTS   results/{model}/{precision}/{target}/tasks.json, results/tuning/{target}/round{last}/{workload}.json, the records store
    OUTPUTS  results/{model}/{precision}/{target}/best.json
    """
    input:
        **plan.inputs("pick_best"),
    output:
        **plan.outputs("pick_best"),
    log:
        **plan.logs("pick_best"),
    conda:
        plan.conda
    container:
        plan.image
    resources:
        **plan.resources("pick_best"),
    params:
        **plan.params("pick_best"),
    shell:
        "tvmake step pick_best {input.tasks:q} --workloads {input.workloads:q} --options {params.options:q}"
        " {params.receipts:q} {params.frozen:q} --best {output.best:q} > {log:q} 2>&1"
