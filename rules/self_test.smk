"""Self-test: run the original model on the few samples that its packages test themselves by.

INPUTS   the model's files, results/{model}/signature.json, source.json, the dataset where samples are to be its
OUTPUTS  results/{model}/self_test.npz (inputs, outputs)
"""


rule self_test:
    input:
        files=lambda w: sources.files(plan.self_test_files(w.model)),
        signature=plan.path("signature.json"),
        source=plan.path("source.json"),
    output:
        samples=plan.path("self_test.npz"),
    log:
        "logs/{model}/self_test.log",
    conda:
        "../envs/tvmake.yaml"
    resources:
        mem_mb=job_resources.memory_mb("self_test"),
        runtime=job_resources.minutes("self_test"),
    params:
        options=lambda w: plan.options("self_test", w),
        sources=lambda w: sources.digest(plan.self_test_files(w.model)),
        code=lambda w: plan.fingerprint("self_test", w),
    message:
        "self_test {wildcards.model}"
    shell:
        "tvmake step self_test {input.signature:q} {input.source:q} --options {params.options:q}"
        " --samples {output.samples:q} > {log:q} 2>&1"
