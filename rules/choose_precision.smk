"""Choose precision: measure what each layer gains and costs in each precision, and take the fastest assignment that meets the goals.

INPUTS   results/{model}/model.json, model.params, signature.json, reference.npz; where int8 is a choice {precision}/calibration.json
OUTPUTS  results/{model}/{precision}/{target}/assigned/module.json, module.params, signature.json (the chosen network),
         {target}/precision.json (the choice and its figures)
"""


rule choose_precision:
    input:
        module=plan.path("model.json"),
        params=plan.path("model.params"),
        signature=plan.path("signature.json"),
        reference=plan.path("reference.npz"),
        calibration=lambda w: plan.calibration_files(w),
        files=lambda w: sources.files(plan.choosing_files(w)),
        frozen=lambda w: sources.files(plan.frozen(w)),
    output:
        module=plan.path("assigned/module.json"),
        params=plan.path("assigned/module.params"),
        signature=plan.path("assigned/signature.json"),
        precision=plan.path("precision.json"),
    log:
        "logs/{model}/{precision}/{target}/choose_precision.log",
    conda:
        "../envs/tvmake.yaml"
    threads: job_resources.threads("choose_precision")
    resources:
        mem_mb=job_resources.memory_mb("choose_precision"),
        runtime=job_resources.minutes("choose_precision"),
        gres=job_resources.gres,
        slurm_extra=job_resources.slurm_extra,
    params:
        options=lambda w: plan.options("choose_precision", w),
        sources=lambda w: sources.digest([*plan.choosing_files(w), *plan.frozen(w)]),
        calibration=lambda w, input: [
            f"--calibration={file}" for file in input.calibration
        ],
        frozen=lambda w, input: frozen(w, input),
        code=plan.fingerprint("choose_precision"),
    message:
        "choose_precision {wildcards.model} {wildcards.precision} {wildcards.target}"
    shell:
        "tvmake step choose_precision {input.module:q} {input.params:q} {input.signature:q} {input.reference:q}"
        " --options {params.options:q} --module {output.module:q} --params {output.params:q}"
        " --signature {output.signature:q} --precision {output.precision:q} {params.calibration:q}"
        " {params.frozen:q} > {log:q} 2>&1"
