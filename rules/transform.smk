"""Transform: fold, bind dimensions, choose layout and precision, run user passes.

INPUTS   results/{model}/model.json, model.params, signature.json
OUTPUTS  results/{model}/{precision}/module.json, module.params, signature.json, or, where the layout is still to be
         chosen, the same in results/{model}/{precision}/layouts/{layout}/
"""


rule transform:
    input:
        module=plan.path("imported_module"),
        params=plan.path("imported_params"),
        signature=plan.path("signature"),
        passes=lambda w: plan.pass_files("transform", w.model),
    output:
        module=plan.path("module"),
        params=plan.path("params"),
        signature=plan.path("bound_signature"),
    log:
        "logs/{model}/{precision}/transform.log",
    conda:
        "../envs/tvmake.yaml"
    resources:
        mem_mb=needs.memory_mb("transform"),
        runtime=needs.minutes("transform"),
    params:
        options=lambda w: plan.options("transform", w),
        code=plan.fingerprint("transform"),
    message:
        "transform {wildcards.model} {wildcards.precision}"
    shell:
        "tvmake step transform {input.module:q} {input.params:q} {input.signature:q}"
        " --options {params.options:q} --module {output.module:q} --params {output.params:q}"
        " --bound {output.signature:q} > {log:q} 2>&1"


use rule transform as transform_candidate with:
    output:
        module=plan.path("candidate_module"),
        params=plan.path("candidate_params"),
        signature=plan.path("candidate_signature"),
    log:
        "logs/{model}/{precision}/layouts/{layout}/transform.log",
    message:
        "transform {wildcards.model} {wildcards.precision} to {wildcards.layout}"
