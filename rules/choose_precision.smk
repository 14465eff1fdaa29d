rule choose_precision:
    """Measure gain and cost of each layer in each precision, and choose the fastest assignment that meets the goals.
    INPUTS   results/{model}/model.json, model.params, signature.json, reference.npz; {precision}/calibration.json if int8 is a choice
    OUTPUTS  results/{model}/{precision}/{target}/assigned/module.json, module.params, signature.json (the chosen network),
             {target}/precision.json (the choice and its figures)
    """
    input:
        **plan.inputs("choose_precision"),
    output:
        **plan.outputs("choose_precision"),
    log:
        **plan.logs("choose_precision"),
    conda:
        plan.conda
    container:
        plan.image
    threads: plan.threads("choose_precision")
    resources:
        **plan.resources("choose_precision"),
    params:
        **plan.params("choose_precision"),
    shell:
        "tvmake step choose_precision {input.imported:q} {input.imported_params:q} {input.imported_signature:q} {input.reference:q}"
        " --options {params.options:q} --module {output.module:q} --params {output.params:q}"
        " --signature {output.signature:q} --precision {output.precision:q} {params.calibration:q}"
        " {params.frozen:q} > {log:q} 2>&1"
