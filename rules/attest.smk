rule attest:
    """Write provenance and component list beside a package.
    INPUTS   results/{model}/{precision}/{target}/package.tar, results/{model}/source.json
    OUTPUTS  results/{model}/{precision}/{target}/package.provenance.json, package.cdx.json
    """
    input:
        **plan.inputs("attest"),
    output:
        **plan.outputs("attest"),
    log:
        **plan.logs("attest"),
    group:
        "package"
    conda:
        plan.conda
    container:
        plan.image
    resources:
        **plan.resources("attest"),
    params:
        **plan.params("attest"),
    shell:
        "tvmake step attest {input.package:q} {input.source:q} --provenance {output.provenance:q}"
        " --components {output.components:q} > {log:q} 2>&1"
