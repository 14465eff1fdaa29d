"""Export: pack library, manifest and weights into one package, with a few samples by which it can test itself.

INPUTS   results/{model}/{precision}/{target}/mod.so, mod.json, mod.params, results/{model}/self_test.npz
OUTPUTS  results/{model}/{precision}/{target}/package.tar
"""


rule export:
    input:
        lib=plan.path("mod.so"),
        manifest=plan.path("mod.json"),
        weights=plan.path("mod.params"),
        samples=lambda w: plan.sample_files(w),
    output:
        package=plan.path("package.tar"),
    log:
        "logs/{model}/{precision}/{target}/export.log",
    group:
        "package"
    conda:
        "../envs/tvmake.yaml"
    resources:
        mem_mb=job_resources.memory_mb("export"),
        runtime=job_resources.minutes("export"),
    params:
        options=lambda w: plan.options("export", w),
        samples=lambda w, input: [f"--samples={file}" for file in input.samples],
        code=plan.fingerprint("export"),
    message:
        "export {wildcards.model} {wildcards.precision} {wildcards.target}"
    shell:
        "tvmake step export {input.lib:q} {input.manifest:q} {input.weights:q} --options {params.options:q}"
        " --package {output.package:q} {params.samples:q} > {log:q} 2>&1"
