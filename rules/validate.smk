"""Validate: run the deployed package on the reference's inputs and compare outputs.

INPUTS   results/{model}/{precision}/{target}/package.tar, receipt.json, results/{model}/reference.npz, the modules of metrics
OUTPUTS  results/{model}/{precision}/{target}/numerics.json (also when goals are missed: the report says so)
"""


rule validate:
    input:
        package=plan.path("package.tar"),
        receipt=plan.path("receipt.json"),
        reference=plan.path("reference.npz"),
        metrics=lambda w: sources.files(plan.metric_files(w)),
    output:
        numerics=plan.path("numerics.json"),
    log:
        "logs/{model}/{precision}/{target}/validate.log",
    group:
        "device"
    conda:
        "../envs/tvmake.yaml"
    resources:
        mem_mb=job_resources.memory_mb("validate"),
        runtime=job_resources.minutes("validate"),
        gres=job_resources.gres,
    params:
        options=lambda w: plan.options("validate", w),
        sources=lambda w: sources.digest(plan.metric_files(w)),
        code=plan.fingerprint("validate"),
    message:
        "validate {wildcards.model} {wildcards.precision} {wildcards.target}"
    shell:
        "tvmake step validate {input.package:q} {input.reference:q} --options {params.options:q}"
        " --numerics {output.numerics:q} > {log:q} 2>&1"
