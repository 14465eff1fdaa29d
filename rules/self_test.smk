rule self_test:
    """Run the original model on the samples of its packages' self-test.
    INPUTS   the model's files, results/{model}/signature.json, source.json, the dataset if the samples come from it
    OUTPUTS  results/{model}/self_test.npz (inputs, outputs)
    """
    input:
        **plan.inputs("self_test"),
    output:
        **plan.outputs("self_test"),
    log:
        **plan.logs("self_test"),
    conda:
        plan.conda
    container:
        plan.image
    resources:
        **plan.resources("self_test"),
    params:
        **plan.params("self_test"),
    shell:
        "tvmake step self_test {input.signature:q} {input.source:q} --options {params.options:q}"
        " --samples {output.samples:q} > {log:q} 2>&1"
