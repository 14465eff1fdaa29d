"""Budget: spread the trials of all variants of a target over their kernels, each kernel once.

INPUTS   results/{model}/{precision}/{target}/tasks.json and workloads/ of every tuned variant, receipts of the round before
OUTPUTS  results/tuning/{target}/round{number}/budget.json, workloads/
"""

import functools


@functools.cache
def budget_file(target, number):
    """A round's budget. Until the round has been planned this raises, which is not cached."""
    return str(checkpoints.budget.get(target=target, number=number).output.budget)


def kernel(w):
    """The budget of a tuning job's kernel."""
    return plan.budgets.kernels(budget_file(w.target, w.number))[w.workload]


def kernel_file(w):
    """A tuning job's kernel; it is there once the round has been planned."""
    return kernel(w) and plan.file("workloads/{workload}.json", **w)


def receipts(target, number, user=None):
    """The receipts of a round, or of one variant's kernels in it; none of round 0."""
    return [
        plan.file("{workload}.json", target=target, number=number, workload=workload)
        for workload in (
            plan.budgets.workloads(budget_file(target, number), user) if number else []
        )
    ]


def frozen(w, input):
    """How a stage is told the lock that its records come from, where there is one."""
    return [
        word
        for lock in input.frozen
        for word in (
            f"--frozen={lock}",
            f"--variant={w.model}/{w.precision}/{w.target}",
        )
    ]


checkpoint budget:
    input:
        tasks=lambda w: plan.task_files(w.target),
        receipts=lambda w: receipts(w.target, int(w.number) - 1),
    output:
        budget=plan.path("budget.json"),
        kernels=directory(plan.path("round/workloads")),
    log:
        "logs/tuning/{target}/round{number}/budget.log",
    # Too little work for a job on a cluster.
    localrule: True
    conda:
        "../envs/tvmake.yaml"
    resources:
        mem_mb=job_resources.memory_mb("budget"),
        runtime=job_resources.minutes("budget"),
    params:
        options=lambda w: plan.options("budget", w),
        receipts=lambda w, input: [f"--receipts={file}" for file in input.receipts],
        code=plan.fingerprint("budget"),
    message:
        "budget {wildcards.target} round {wildcards.number}"
    shell:
        # Options for thousands of variants are longer than an argument may be.
        "printf %s {params.options:q} | tvmake step budget {input.tasks:q} {params.receipts:q} --options -"
        " --budget {output.budget:q} --kernels {output.kernels:q} > {log:q} 2>&1"
