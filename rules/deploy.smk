rule deploy:
    """Copy a package to its device, identified by its digest.
    INPUTS   results/{model}/{precision}/{target}/package.tar
    OUTPUTS  results/{model}/{precision}/{target}/receipt.json
    """
    input:
        **plan.inputs("deploy"),
    output:
        **plan.outputs("deploy"),
    log:
        **plan.logs("deploy"),
    group:
        "device"
    conda:
        plan.conda
    container:
        plan.image
    resources:
        **plan.resources("deploy"),
    params:
        **plan.params("deploy"),
    shell:
        "tvmake step deploy {input.package:q} --options {params.options:q}"
        " --receipt {output.receipt:q} > {log:q} 2>&1"
