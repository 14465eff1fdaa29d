"""Budget: spread the trials of all variants of a target over their kernels, each kernel once.

INPUTS   results/{model}/{precision}/{target}/tasks.json and workloads/ of every tuned variant, receipts of the pass before
OUTPUTS  results/tuning/{target}/pass{number}/budget.json, workloads/
"""


checkpoint budget:
    input:
        tasks=lambda w: plan.task_files(w.target),
        receipts=lambda w: receipts(w.target, int(w.number) - 1),
    output:
        budget=plan.path("budget"),
        kernels=directory(plan.path("kernels")),
    log:
        "logs/tuning/{target}/pass{number}/budget.log",
    # Too little work for a job on a cluster.
    localrule: True
    conda:
        "../envs/tvmake.yaml"
    resources:
        mem_mb=needs.memory_mb("budget"),
        runtime=needs.minutes("budget"),
    params:
        options=lambda w: plan.options("budget", w),
        receipts=lambda w, input: [f"--receipts={file}" for file in input.receipts],
        code=plan.fingerprint("budget"),
    message:
        "budget {wildcards.target} pass {wildcards.number}"
    shell:
        # Options for thousands of variants are longer than an argument may be.
        "printf %s {params.options:q} | tvmake step budget {input.tasks:q} {params.receipts:q} --options -"
        " --budget {output.budget:q} --kernels {output.kernels:q} > {log:q} 2>&1"
