"""relax.transform.StaticPlanBlockMemory lets a tensor of one branch of an If reuse the storage of the other branch.

Both branches compute two tensors after each other. The storage of the first branch is allocated there, and the second branch, which
runs instead of it, creates its tensors in that storage. Running the second branch ends in a segmentation fault.
"""

import tvm
from tvm import relax
from tvm.script import relax as R


@R.function
def choose(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((4,), "float32"):
    if c:
        a = R.add(x, x)
        y = R.tanh(a)
    else:
        b = R.multiply(x, x)
        y = R.exp(b)
    return y


def still_needed() -> bool:
    """Whether the defect exists."""
    transform = relax.transform
    passes = [
        transform.LegalizeOps(), transform.ToNonDataflow(), transform.RemovePurityChecking(), transform.CallTIRRewrite(),
        transform.StaticPlanBlockMemory(),
    ]  # fmt: skip
    with tvm.target.Target("llvm"):
        module = tvm.transform.Sequential(passes)(tvm.IRModule({"choose": choose}))
    branches: list[relax.If] = []
    relax.analysis.post_order_visit(
        module["choose"], lambda value: branches.append(value) if isinstance(value, relax.If) else None
    )
    bound, used = [], []
    for branch in (branches[0].true_branch, branches[0].false_branch):
        bindings = [binding for block in branch.blocks for binding in block.bindings]
        calls = [binding.value for binding in bindings if isinstance(binding.value, relax.Call)]
        bound.append({binding.var for binding in bindings})
        used.append({argument for call in calls for argument in call.args if isinstance(argument, relax.Var)})
    return bool(bound[0] & used[1])


if __name__ == "__main__":
    raise SystemExit(still_needed())
