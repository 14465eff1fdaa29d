"""Benchmark: time the deployed package, alone on its device.

INPUTS   results/{model}/{precision}/{target}/package.tar, receipt.json, results/{model}/reference.npz; source.json where
         the model's own framework is measured beside the package, which has to read the files that were imported
OUTPUTS  results/{model}/{precision}/{target}/latency.json
"""


rule benchmark:
    input:
        package=plan.path("package.tar"),
        receipt=plan.path("receipt.json"),
        reference=plan.path("reference.npz"),
        source=lambda w: [ancient(file) for file in plan.baseline_files(w)],  # a comment in the model changes it, and no figure
    output:
        latency=plan.path("latency.json"),
    log:
        "logs/{model}/{precision}/{target}/benchmark.log",
    conda:
        "../envs/tvmake.yaml"
    threads: job_resources.threads("benchmark")
    resources:
        mem_mb=job_resources.memory_mb("benchmark"),
        runtime=job_resources.minutes("benchmark"),
        gres=job_resources.gres,
        slurm_extra=job_resources.slurm_extra,
    params:
        options=lambda w: plan.options("benchmark", w),
        source=lambda w, input: [f"--source={file}" for file in input.source],
        code=lambda w: plan.fingerprint("benchmark", w),
    message:
        "benchmark {wildcards.model} {wildcards.precision} {wildcards.target}"
    shell:
        "tvmake step benchmark {input.package:q} {input.reference:q} --options {params.options:q}"
        " --latency {output.latency:q} {params.source:q} > {log:q} 2>&1"
