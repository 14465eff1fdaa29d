"""Benchmark: time the deployed package, alone on its device.

INPUTS   results/{model}/{precision}/{target}/package.tar, receipt.json, results/{model}/reference.npz
OUTPUTS  results/{model}/{precision}/{target}/latency.json
"""


rule benchmark:
    input:
        package=plan.path("package"),
        receipt=plan.path("receipt"),
        reference=plan.path("reference"),
    output:
        latency=plan.path("latency"),
    log:
        "logs/{model}/{precision}/{target}/benchmark.log",
    conda:
        "../envs/tvmake.yaml"
    threads: needs.threads("benchmark")
    resources:
        mem_mb=needs.memory_mb("benchmark"),
        runtime=needs.minutes("benchmark"),
        gres=needs.gres,
        slurm_extra=needs.slurm_extra,
    params:
        options=lambda w: plan.options("benchmark", w),
        code=plan.fingerprint("benchmark"),
    message:
        "benchmark {wildcards.model} {wildcards.precision} {wildcards.target}"
    shell:
        "tvmake step benchmark {input.package:q} {input.reference:q} --options {params.options:q}"
        " --latency {output.latency:q} > {log:q} 2>&1"
