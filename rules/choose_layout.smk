"""Choose layout: measure a few candidates of the heaviest kernels in each data layout, and take the fastest layout.

INPUTS   results/{model}/{precision}/layouts/{layout}/module.json, module.params, signature.json of every layout
OUTPUTS  results/{model}/{precision}/{target}/module.json, module.params, signature.json (the chosen layout's, as they are),
         layout.json (the choice and its figures; the records are in the store)
"""


rule choose_layout:
    input:
        modules=lambda w: plan.candidates("candidate_module", w),
        params=lambda w: plan.candidates("candidate_params", w),
        signatures=lambda w: plan.candidates("candidate_signature", w),
        passes=lambda w: plan.pass_files("choose_layout", w.model),
        frozen=lambda w: plan.frozen(w),
    output:
        module=plan.path("chosen_module"),
        params=plan.path("chosen_params"),
        signature=plan.path("chosen_signature"),
        layout=plan.path("layout"),
    log:
        text="logs/{model}/{precision}/{target}/choose_layout.log",
        events="logs/{model}/{precision}/{target}/choose_layout.events.jsonl",
    conda:
        "../envs/tvmake.yaml"
    threads: needs.threads("choose_layout")
    resources:
        mem_mb=needs.memory_mb("choose_layout"),
        runtime=needs.minutes("choose_layout"),
        gres=needs.gres,
        slurm_extra=needs.slurm_extra,
    params:
        options=lambda w: plan.options("choose_layout", w),
        frozen=lambda w, input: frozen(w, input),
        code=plan.fingerprint("choose_layout"),
    message:
        "choose_layout {wildcards.model} {wildcards.precision} {wildcards.target}"
    shell:
        "tvmake step choose_layout {input.modules:q} --options {params.options:q}"
        " --module {output.module:q} --params {output.params:q} --signature {output.signature:q}"
        " --layout {output.layout:q} --events {log.events:q} {params.frozen:q} > {log.text:q} 2>&1"
