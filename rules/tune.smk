"""Tune: search for one kernel of a target until it has its budget; what is measured goes to the records store.

INPUTS   results/tuning/{target}/pass{number}/workloads/{workload}.json
OUTPUTS  results/tuning/{target}/pass{number}/{workload}.json (a receipt; the records are in the store)
"""


rule tune:
    input:
        kernel=kernel_file,
    output:
        receipt=plan.path("tuned"),
    log:
        text="logs/tuning/{target}/pass{number}/{workload}.log",
        events="logs/tuning/{target}/pass{number}/{workload}.events.jsonl",
    conda:
        "../envs/tvmake.yaml"
    threads: needs.threads("tune")
    resources:
        mem_mb=needs.memory_mb("tune"),
        runtime=needs.minutes("tune", trials=lambda w: kernel(w).trials),
        gres=needs.gres,
        slurm_extra=needs.slurm_extra,
    params:
        name=lambda w: kernel(w).name,
        trials=lambda w: kernel(w).trials,
        options=lambda w: plan.options("tune", w),
        code=plan.fingerprint("tune"),
    message:
        "tune {params.name} for {wildcards.target} to {params.trials} trials"
    shell:
        "tvmake step tune {input.kernel:q} --name {params.name:q} --trials {params.trials} --options {params.options:q}"
        " --receipt {output.receipt:q} --events {log.events:q} > {log.text:q} 2>&1"
