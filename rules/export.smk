"""Export: pack library, manifest and weights into one package.

INPUTS   results/{model}/{precision}/{target}/mod.so, mod.json, mod.params
OUTPUTS  results/{model}/{precision}/{target}/package.tar
"""


rule export:
    input:
        lib=plan.path("mod.so"),
        manifest=plan.path("mod.json"),
        weights=plan.path("mod.params"),
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
        code=plan.fingerprint("export"),
    message:
        "export {wildcards.model} {wildcards.precision} {wildcards.target}"
    shell:
        "tvmake step export {input.lib:q} {input.manifest:q} {input.weights:q}"
        " --package {output.package:q} > {log:q} 2>&1"
