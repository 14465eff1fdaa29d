rule compare_operators:
    """Compare the result of each operator of a package with the original network's.
    INPUTS   results/{model}/model.json, model.params, reference.npz, the network that the variant builds
    OUTPUTS  results/{model}/{precision}/{target}/operator_errors.json
    """
    input:
        **plan.inputs("compare_operators"),
    output:
        **plan.outputs("compare_operators"),
    log:
        **plan.logs("compare_operators"),
    conda:
        plan.conda
    container:
        plan.image
    resources:
        **plan.resources("compare_operators"),
    params:
        **plan.params("compare_operators"),
    shell:
        "tvmake step compare_operators {input.imported:q} {input.weights:q} {input.module:q} {input.params:q} {input.signature:q}"
        " {input.reference:q} --options {params.options:q} --errors {output.errors:q} {params.best:q} > {log:q} 2>&1"
