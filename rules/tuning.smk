"""What the tuning rules know of each other: which kernels a pass has, which only its budget says."""

import functools


@functools.cache
def budget_file(target, number):
    """A pass's budget. Until the pass has been planned this raises, which is not cached."""
    return str(checkpoints.budget.get(target=target, number=number).output.budget)


def kernel(w):
    """The budget of a tuning job's kernel."""
    return plan.budgets.kernels(budget_file(w.target, w.number))[w.workload]


def kernel_file(w):
    """A tuning job's kernel; it is there once the pass has been planned."""
    return kernel(w) and plan.file("kernel", **w)


def receipts(target, number, user=None):
    """The receipts of a pass, or of one variant's kernels in it; none of pass 0."""
    return [
        plan.file("tuned", target=target, number=number, workload=workload)
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
