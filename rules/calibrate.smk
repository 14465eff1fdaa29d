rule calibrate:
    """Run the float network on the model's data, and write the ranges of the tensors that int8 quantises.
    INPUTS   results/{model}/model.json, model.params, signature.json, the model's dataset
    OUTPUTS  results/{model}/{precision}/calibration.json
    """
    input:
        **plan.inputs("calibrate"),
    output:
        **plan.outputs("calibrate"),
    log:
        **plan.logs("calibrate"),
    conda:
        plan.conda
    container:
        plan.image
    resources:
        **plan.resources("calibrate"),
    params:
        **plan.params("calibrate"),
    shell:
        "tvmake step calibrate {input.module:q} {input.params:q} {input.signature:q}"
        " --options {params.options:q} --calibration {output.calibration:q} > {log:q} 2>&1"
