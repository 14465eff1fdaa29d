"""Build: lower the transformed module for a target, generate and link its kernels.

INPUTS   results/{model}/{precision}/module.json, module.params, signature.json (those in {target}/ where a layout was
         chosen), best.json of a variant that is tuned
OUTPUTS  results/{model}/{precision}/{target}/mod.so, mod.json, mod.params, sources/
"""


rule build:
    input:
        module=lambda w: plan.transformed("module.json", w),
        params=lambda w: plan.transformed("module.params", w),
        signature=lambda w: plan.transformed("signature.json", w),
        passes=lambda w: sources.files(plan.pass_files("build", w.model)),
        best=lambda w: plan.best_files(w),
    output:
        lib=plan.path("mod.so"),
        manifest=plan.path("mod.json"),
        weights=plan.path("mod.params"),
        sources=directory(plan.path("sources")),
    log:
        "logs/{model}/{precision}/{target}/build.log",
    group:
        "package"
    conda:
        "../envs/tvmake.yaml"
    resources:
        mem_mb=job_resources.memory_mb("build"),
        runtime=job_resources.minutes("build"),
    params:
        options=lambda w: plan.options("build", w),
        sources=lambda w: sources.digest(plan.pass_files("build", w.model)),
        records=lambda w, input: [f"--best={file}" for file in input.best],
        code=plan.fingerprint("build"),
    message:
        "build {wildcards.model} {wildcards.precision} {wildcards.target}"
    shell:
        "tvmake step build {input.module:q} {input.params:q} {input.signature:q}"
        " --options {params.options:q} --lib {output.lib:q} --manifest {output.manifest:q}"
        " --weights {output.weights:q} --sources {output.sources:q} {params.records:q} > {log:q} 2>&1"
