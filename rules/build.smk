rule build:
    """Lower the transformed module for a target, generate and link its kernels.
    INPUTS   results/{model}/{precision}/module.json, module.params, signature.json (in {target}/ if the layout was
             chosen), best.json of a tuned variant
    OUTPUTS  results/{model}/{precision}/{target}/mod.so, mod.json, packing.json, sources/
    """
    input:
        **plan.inputs("build"),
    output:
        **plan.outputs("build"),
    log:
        **plan.logs("build"),
    group:
        "package"
    conda:
        plan.conda
    container:
        plan.image
    resources:
        **plan.resources("build"),
    params:
        **plan.params("build"),
    shell:
        "tvmake step build {input.module:q} {input.params:q} {input.signature:q}"
        " --options {params.options:q} --lib {output.lib:q} --manifest {output.manifest:q}"
        " --packing {output.packing:q} --sources {output.sources:q} {params.best:q} {params.layout:q} {params.layout_params:q} > {log:q} 2>&1"
