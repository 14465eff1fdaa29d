rule join:
    """Join the packages of a model's functions to one package over the same weights.
    INPUTS   results/{model}/{precision}/{target}/package.tar and results/{model}/{precision}/module.params of each function
    OUTPUTS  results/{group}/{precision}/{target}/package.tar, joined.json, of the model with these functions
    """
    input:
        **plan.inputs("join"),
    output:
        **plan.outputs("join"),
    log:
        **plan.logs("join"),
    conda:
        plan.conda
    container:
        plan.image
    resources:
        **plan.resources("join"),
    params:
        **plan.params("join"),
    shell:
        "tvmake step join {input.packages:q} --options {params.options:q}"
        " --package {output.package:q} --joined {output.joined:q} {params.networks:q} > {log:q} 2>&1"
