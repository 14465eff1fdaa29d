"""Attest: say beside a package where it came from and what it consists of.

INPUTS   results/{model}/{precision}/{target}/package.tar, results/{model}/source.json
OUTPUTS  results/{model}/{precision}/{target}/package.provenance.json, package.cdx.json
"""


rule attest:
    input:
        package=plan.path("package.tar"),
        source=plan.path("source.json"),
    output:
        provenance=plan.path("package.provenance.json"),
        components=plan.path("package.cdx.json"),
    log:
        "logs/{model}/{precision}/{target}/attest.log",
    group:
        "package"
    conda:
        "../envs/tvmake.yaml"
    resources:
        mem_mb=job_resources.memory_mb("attest"),
        runtime=job_resources.minutes("attest"),
    params:
        code=plan.fingerprint("attest"),
    message:
        "attest {wildcards.model} {wildcards.precision} {wildcards.target}"
    shell:
        "tvmake step attest {input.package:q} {input.source:q} --provenance {output.provenance:q}"
        " --components {output.components:q} > {log:q} 2>&1"
