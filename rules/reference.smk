"""Reference: run the original model in its own framework on the dataset, or on seeded inputs.

INPUTS   the model's files, its dataset, results/{model}/signature.json, source.json
OUTPUTS  results/{model}/reference.npz (inputs, labels, outputs)
"""


rule reference:
    input:
        files=lambda w: sources.files(plan.reference_files(w.model)),
        signature=plan.path("signature.json"),
        source=plan.path("source.json"),
    output:
        reference=plan.path("reference.npz"),
    log:
        "logs/{model}/reference.log",
    conda:
        "../envs/tvmake.yaml"
    resources:
        mem_mb=job_resources.memory_mb("reference"),
        runtime=job_resources.minutes("reference"),
    params:
        options=lambda w: plan.options("reference", w),
        sources=lambda w: sources.digest(plan.reference_files(w.model)),
        code=lambda w: plan.fingerprint("reference", w),
    message:
        "reference {wildcards.model}"
    shell:
        "tvmake step reference {input.signature:q} {input.source:q} --options {params.options:q}"
        " --reference {output.reference:q} > {log:q} 2>&1"
