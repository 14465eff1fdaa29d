rule benchmark:
    """Time the deployed package on its device, with exclusive access.
    INPUTS   results/{model}/{precision}/{target}/package.tar, receipt.json, results/{model}/reference.npz; source.json if
             the model's own framework is timed too
    OUTPUTS  results/{model}/{precision}/{target}/latency.json
    """
    input:
        **plan.inputs("benchmark"),
    output:
        **plan.outputs("benchmark"),
    log:
        **plan.logs("benchmark"),
    conda:
        plan.conda
    container:
        plan.image
    threads: plan.threads("benchmark")
    resources:
        **plan.resources("benchmark"),
    params:
        **plan.params("benchmark"),
    shell:
        "tvmake step benchmark {input.package:q} {input.reference:q} --options {params.options:q}"
        " --latency {output.latency:q} {params.source:q} > {log:q} 2>&1"
