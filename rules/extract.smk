"""Extract: name the kernels of a variant that is tuned, and which of them are worth it.

INPUTS   results/{model}/{precision}/module.json, signature.json; those in {target}/ where a layout was chosen
OUTPUTS  results/{model}/{precision}/{target}/tasks.json, workloads/
"""


rule extract:
    input:
        module=lambda w: plan.transformed("module.json", w),
        signature=lambda w: plan.transformed("signature.json", w),
        passes=lambda w: sources.files(plan.pass_files("build", w.model)),
    output:
        tasks=plan.path("tasks.json"),
        workloads=directory(plan.path("workloads")),
    log:
        "logs/{model}/{precision}/{target}/extract.log",
    conda:
        "../envs/tvmake.yaml"
    resources:
        mem_mb=job_resources.memory_mb("extract"),
        runtime=job_resources.minutes("extract"),
    params:
        options=lambda w: plan.options("extract", w),
        sources=lambda w: sources.digest(plan.pass_files("build", w.model)),
        code=plan.fingerprint("extract"),
    message:
        "extract {wildcards.model} {wildcards.precision} {wildcards.target}"
    shell:
        "tvmake step extract {input.module:q} {input.signature:q} --options {params.options:q}"
        " --tasks {output.tasks:q} --workloads {output.workloads:q} > {log:q} 2>&1"
