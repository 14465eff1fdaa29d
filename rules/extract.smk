rule extract:
    """List the kernels of a tuned variant, and those that are worth tuning.
    INPUTS   results/{model}/{precision}/module.json, signature.json (in {target}/ if the layout was chosen); those of the
             model's first function
    OUTPUTS  results/{model}/{precision}/{target}/tasks.json, workloads/
    """
    input:
        **plan.inputs("extract"),
    output:
        **plan.outputs("extract"),
    log:
        **plan.logs("extract"),
    conda:
        plan.conda
    container:
        plan.image
    resources:
        **plan.resources("extract"),
    params:
        **plan.params("extract"),
    shell:
        "tvmake step extract {input.module:q} {input.signature:q} --options {params.options:q}"
        " --tasks {output.tasks:q} --workloads {output.workloads:q} {params.first_module:q} {params.first_signature:q} > {log:q} 2>&1"
