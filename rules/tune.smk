"""Tune: search for one kernel of a target until it has its budget; what is measured goes to the records store.

INPUTS   results/tuning/{target}/round{number}/workloads/{workload}.json
OUTPUTS  results/tuning/{target}/round{number}/{workload}.json (a receipt; the records are in the store)
"""


rule tune:
    input:
        kernel=lambda w: kernel_file(w),
    output:
        receipt=plan.path("{workload}.json"),
    log:
        text="logs/tuning/{target}/round{number}/{workload}.log",
        events="logs/tuning/{target}/round{number}/{workload}.events.jsonl",
    conda:
        "../envs/tvmake.yaml"
    threads: job_resources.threads("tune")
    resources:
        mem_mb=job_resources.memory_mb("tune"),
        runtime=job_resources.minutes("tune", trials=lambda w: kernel(w).trials),
        gres=job_resources.gres,
        slurm_extra=job_resources.slurm_extra,
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
