rule reference:
    """Run the original model in its own framework on the dataset, or on seeded inputs.
    INPUTS   the model's files, its dataset, results/{model}/signature.json, source.json
    OUTPUTS  results/{model}/reference.npz (inputs, labels, outputs)
    """
    input:
        **plan.inputs("reference"),
    output:
        **plan.outputs("reference"),
    log:
        **plan.logs("reference"),
    conda:
        plan.conda
    container:
        plan.image
    resources:
        **plan.resources("reference"),
    params:
        **plan.params("reference"),
    shell:
        "tvmake step reference {input.signature:q} {input.source:q} --options {params.options:q}"
        " --reference {output.reference:q} > {log:q} 2>&1"
