rule import_model:
    """Convert a trained model to Relax, with separate parameters.
    INPUTS   the model's file and its side files (none for zoo networks)
    OUTPUTS  results/{model}/model.json, model.params, signature.json, source.json
    """
    input:
        **plan.inputs("import"),
    output:
        **plan.outputs("import"),
    log:
        **plan.logs("import"),
    conda:
        plan.conda
    container:
        plan.image
    resources:
        **plan.resources("import"),
    params:
        **plan.params("import"),
    shell:
        "tvmake step import --options {params.options:q}"
        " --module {output.module:q} --params {output.params:q}"
        " --signature {output.signature:q} --source {output.source:q} > {log:q} 2>&1"
