"""Transform: fold, bind dimensions, choose layout and precision, run user passes.

INPUTS   results/{model}/model.json, model.params, signature.json; for int8 {precision}/calibration.json
OUTPUTS  results/{model}/{precision}/module.json, module.params, signature.json, or, where the layout is still to be
         chosen, the same in results/{model}/{precision}/layouts/{layout}/
"""


rule transform:
    input:
        module=plan.path("model.json"),
        params=plan.path("model.params"),
        signature=plan.path("signature.json"),
        passes=lambda w: sources.files(plan.pass_files("transform", w.model)),
        calibration=lambda w: plan.calibration_files(w),
    output:
        module=plan.path("module.json"),
        params=plan.path("module.params"),
        signature=plan.path("transformed/signature.json"),
    log:
        "logs/{model}/{precision}/transform.log",
    conda:
        "../envs/tvmake.yaml"
    resources:
        mem_mb=job_resources.memory_mb("transform"),
        runtime=job_resources.minutes("transform"),
    params:
        options=lambda w: plan.options("transform", w),
        sources=lambda w: sources.digest(plan.pass_files("transform", w.model)),
        calibration=lambda w, input: [
            f"--calibration={file}" for file in input.calibration
        ],
        code=plan.fingerprint("transform"),
    message:
        "transform {wildcards.model} {wildcards.precision}"
    shell:
        "tvmake step transform {input.module:q} {input.params:q} {input.signature:q}"
        " --options {params.options:q} --module {output.module:q} --params {output.params:q}"
        " --bound {output.signature:q} {params.calibration:q} > {log:q} 2>&1"


use rule transform as transform_candidate with:
    output:
        module=plan.path("layouts/module.json"),
        params=plan.path("layouts/module.params"),
        signature=plan.path("layouts/signature.json"),
    log:
        "logs/{model}/{precision}/layouts/{layout}/transform.log",
    message:
        "transform {wildcards.model} {wildcards.precision} to {wildcards.layout}"
