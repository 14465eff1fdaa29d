"""Calibrate: run the float network on the model's data, and write down the ranges of what int8 holds in 8 bits.

INPUTS   results/{model}/model.json, model.params, signature.json, the model's dataset
OUTPUTS  results/{model}/{precision}/calibration.json
"""


rule calibrate:
    input:
        module=plan.path("model.json"),
        params=plan.path("model.params"),
        signature=plan.path("signature.json"),
        files=lambda w: sources.files(plan.calibrated_files(w.model)),
    output:
        calibration=plan.path("calibration.json"),
    log:
        "logs/{model}/{precision}/calibrate.log",
    conda:
        "../envs/tvmake.yaml"
    resources:
        mem_mb=job_resources.memory_mb("calibrate"),
        runtime=job_resources.minutes("calibrate"),
    params:
        options=lambda w: plan.options("calibrate", w),
        sources=lambda w: sources.digest(plan.calibrated_files(w.model)),
        code=plan.fingerprint("calibrate"),
    message:
        "calibrate {wildcards.model} {wildcards.precision}"
    shell:
        "tvmake step calibrate {input.module:q} {input.params:q} {input.signature:q}"
        " --options {params.options:q} --calibration {output.calibration:q} > {log:q} 2>&1"
