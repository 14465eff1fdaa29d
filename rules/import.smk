"""Import: read a trained model as Relax, parameters apart.

INPUTS   the model's file and its side files (none for zoo networks)
OUTPUTS  results/{model}/model.json, model.params, signature.json, source.json
"""


rule import_model:
    input:
        files=lambda w: sources.files(plan.model_files(w.model)),
    output:
        module=plan.path("model.json"),
        params=plan.path("model.params"),
        signature=plan.path("signature.json"),
        source=plan.path("source.json"),
    log:
        "logs/{model}/import.log",
    conda:
        "../envs/tvmake.yaml"
    resources:
        mem_mb=job_resources.memory_mb("import"),
        runtime=job_resources.minutes("import"),
    params:
        options=lambda w: plan.options("import", w),
        sources=lambda w: sources.digest(plan.model_files(w.model)),
        code=lambda w: plan.fingerprint("import", w),
    message:
        "import {wildcards.model}"
    shell:
        "tvmake step import --options {params.options:q}"
        " --module {output.module:q} --params {output.params:q}"
        " --signature {output.signature:q} --source {output.source:q} > {log:q} 2>&1"
