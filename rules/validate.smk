rule validate:
    """Run the deployed package on the reference's inputs and compare outputs.
    INPUTS   results/{model}/{precision}/{target}/package.tar, receipt.json, results/{model}/reference.npz, the modules of metrics
    OUTPUTS  results/{model}/{precision}/{target}/numerics.json (also if goals are missed)
    """
    input:
        **plan.inputs("validate"),
    output:
        **plan.outputs("validate"),
    log:
        **plan.logs("validate"),
    group:
        "device"
    conda:
        plan.conda
    container:
        plan.image
    resources:
        **plan.resources("validate"),
    params:
        **plan.params("validate"),
    shell:
        "tvmake step validate {input.package:q} {input.reference:q} --options {params.options:q}"
        " --numerics {output.numerics:q} > {log:q} 2>&1"
