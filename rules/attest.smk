"""Attest: say beside a package where it came from and what it consists of.

INPUTS   results/{model}/{precision}/{target}/package.tar, results/{model}/source.json
OUTPUTS  results/{model}/{precision}/{target}/package.provenance.json, package.cdx.json
"""


rule attest:
    input:
        package=plan.path("package"),
        source=plan.path("source"),
    output:
        provenance=plan.path("provenance"),
        components=plan.path("components"),
    log:
        "logs/{model}/{precision}/{target}/attest.log",
    group:
        "package"
    conda:
        "../envs/tvmake.yaml"
    resources:
        mem_mb=needs.memory_mb("attest"),
        runtime=needs.minutes("attest"),
    params:
        code=plan.fingerprint("attest"),
    message:
        "attest {wildcards.model} {wildcards.precision} {wildcards.target}"
    shell:
        "tvmake step attest {input.package:q} {input.source:q} --provenance {output.provenance:q}"
        " --components {output.components:q} > {log:q} 2>&1"
