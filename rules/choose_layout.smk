rule choose_layout:
    """Measure a few candidates of the most expensive kernels in each data layout, and choose the fastest layout.
    INPUTS   results/{model}/{precision}/layouts/{layout}/module.json, module.params, signature.json of every layout
    OUTPUTS  results/{model}/{precision}/{target}/module.json, module.params, signature.json (the chosen layout's, unchanged),
             layout.json (the choice and its figures; the records are in the store)
    """
    input:
        **plan.inputs("choose_layout"),
    output:
        **plan.outputs("choose_layout"),
    log:
        **plan.logs("choose_layout"),
    conda:
        plan.conda
    container:
        plan.image
    threads: plan.threads("choose_layout")
    resources:
        **plan.resources("choose_layout"),
    params:
        **plan.params("choose_layout"),
    shell:
        "tvmake step choose_layout {input.candidates:q} --options {params.options:q}"
        " --module {output.module:q} --params {output.params:q} --signature {output.signature:q}"
        " --layout {output.layout:q} --events {log.events:q} {params.frozen:q} > {log.text:q} 2>&1"
