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
    # On this machine a measurement takes every core, so that nothing runs beside it.
    threads: lambda w: plan.benchmark_threads(w.target, workflow.cores)
    resources:
        mem_mb=lambda w: plan.memory_mb("benchmark", w.model),
    params:
        options=lambda w: plan.options("benchmark", w),
        code=plan.fingerprint("benchmark"),
    message:
        "benchmark {wildcards.model} {wildcards.precision} {wildcards.target}"
    shell:
        "tvmake step benchmark {input.package:q} {input.reference:q} --options {params.options:q}"
        " --latency {output.latency:q} > {log:q} 2>&1"
