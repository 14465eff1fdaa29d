"""Pick best: the fastest record of each of a variant's kernels whose output is right.

INPUTS   results/{model}/{precision}/{target}/tasks.json, results/tuning/{target}/round{last}/{workload}.json, the records store
OUTPUTS  results/{model}/{precision}/{target}/best.json
"""


rule pick_best:
    input:
        tasks=plan.path("tasks.json"),
        workloads=ancient(plan.path("workloads")),  # it goes with tasks.json
        receipts=lambda w: receipts(
            w.target, plan.rounds(w.target), f"{w.model}/{w.precision}"
        ),
        frozen=lambda w: sources.files(plan.frozen(w)),
    output:
        best=plan.path("best.json"),
    log:
        "logs/{model}/{precision}/{target}/pick_best.log",
    conda:
        "../envs/tvmake.yaml"
    resources:
        mem_mb=job_resources.memory_mb("pick_best"),
        runtime=job_resources.minutes("pick_best"),
        gres=job_resources.gres,
    params:
        options=lambda w: plan.options("pick_best", w),
        sources=lambda w: sources.digest(plan.frozen(w)),
        receipts=lambda w, input: [f"--receipts={file}" for file in input.receipts],
        frozen=lambda w, input: frozen(w, input),
        code=plan.fingerprint("pick_best"),
    message:
        "pick_best {wildcards.model} {wildcards.precision} {wildcards.target}"
    shell:
        "tvmake step pick_best {input.tasks:q} --workloads {input.workloads:q} --options {params.options:q}"
        " {params.receipts:q} {params.frozen:q} --best {output.best:q} > {log:q} 2>&1"
