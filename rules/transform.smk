rule transform:
    """Fold, bind dimensions, choose layout and precision, run user passes.
    INPUTS   results/{model}/model.json, model.params, signature.json; {precision}/calibration.json for int8
    OUTPUTS  results/{model}/{precision}/module.json, module.params, signature.json, or, if the layout is to be
             chosen, the same in results/{model}/{precision}/layouts/{layout}/
    """
    input:
        **plan.inputs("transform"),
    output:
        **plan.outputs("transform"),
    log:
        **plan.logs("transform"),
    conda:
        plan.conda
    container:
        plan.image
    resources:
        **plan.resources("transform"),
    params:
        **plan.params("transform"),
    shell:
        "tvmake step transform {input.imported:q} {input.imported_params:q} {input.signature:q}"
        " --options {params.options:q} --module {output.module:q} --params {output.params:q}"
        " --bound {output.bound:q} {params.calibration:q} > {log:q} 2>&1"


use rule transform as transform_candidate with:
    output:
        **plan.outputs("transform_candidate"),
    log:
        **plan.logs("transform_candidate"),
