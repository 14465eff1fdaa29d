rule export:
    """Put library, manifest and packed weights into one package, with a few samples for its self-test.
    INPUTS   results/{model}/{precision}/{target}/mod.so, mod.json, packing.json,
             results/{model}/{precision}/module.params, results/{model}/self_test.npz
    OUTPUTS  results/{model}/{precision}/{target}/package.tar
    """
    input:
        **plan.inputs("export"),
    output:
        **plan.outputs("export"),
    log:
        **plan.logs("export"),
    group:
        "package"
    conda:
        plan.conda
    container:
        plan.image
    resources:
        **plan.resources("export"),
    params:
        **plan.params("export"),
    shell:
        "tvmake step export {input.lib:q} {input.manifest:q} {input.packing:q} {input.params:q} --options {params.options:q}"
        " --package {output.package:q} {params.samples:q} > {log:q} 2>&1"
