"""Choose layout: measure a few candidates of the heaviest kernels in each data layout, and take the fastest layout.

INPUTS   results/{model}/{precision}/layouts/{layout}/module.json, module.params, signature.json of every layout
OUTPUTS  results/{model}/{precision}/{target}/module.json, module.params, signature.json (the chosen layout's, as they are),
         layout.json (the choice and its figures; the records are in the store)
"""


rule choose_layout:
    input:
        modules=lambda w: plan.candidates("layouts/module.json", w),
        params=lambda w: plan.candidates("layouts/module.params", w),
        signatures=lambda w: plan.candidates("layouts/signature.json", w),
        passes=lambda w: sources.files(plan.pass_files("choose_layout", w.model)),
        frozen=lambda w: sources.files(plan.frozen(w)),
    output:
        module=plan.path("chosen/module.json"),
        params=plan.path("chosen/module.params"),
        signature=plan.path("chosen/signature.json"),
        layout=plan.path("layout.json"),
    log:
        text="logs/{model}/{precision}/{target}/choose_layout.log",
        events="logs/{model}/{precision}/{target}/choose_layout.events.jsonl",
    conda:
        "../envs/tvmake.yaml"
    threads: job_resources.threads("choose_layout")
    resources:
        mem_mb=job_resources.memory_mb("choose_layout"),
        runtime=job_resources.minutes("choose_layout"),
        gres=job_resources.gres,
        slurm_extra=job_resources.slurm_extra,
    params:
        options=lambda w: plan.options("choose_layout", w),
        sources=lambda w: sources.digest(
            [*plan.pass_files("choose_layout", w.model), *plan.frozen(w)]
        ),
        frozen=lambda w, input: frozen(w, input),
        code=plan.fingerprint("choose_layout"),
    message:
        "choose_layout {wildcards.model} {wildcards.precision} {wildcards.target}"
    shell:
        "tvmake step choose_layout {input.modules:q} --options {params.options:q}"
        " --module {output.module:q} --params {output.params:q} --signature {output.signature:q}"
        " --layout {output.layout:q} --events {log.events:q} {params.frozen:q} > {log.text:q} 2>&1"
