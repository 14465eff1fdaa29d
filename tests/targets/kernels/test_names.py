"""Kernels have names that file systems accept, and a renamed module computes the same."""

import numpy as np
import tvm

from tvmake.targets.kernels.names import LONGEST, shorten_kernel_names

LONG = "fused_" + "_".join(["add"] * 200)


def module_with(*names: str) -> "tvm.IRModule":
    """``main`` adds 1, 2, … to its argument, in a tensor function of each name."""
    builder = tvm.relax.BlockBuilder()
    x = tvm.relax.Var("x", tvm.relax.TensorType((4,), "float32"))
    with builder.function("main", [x]):
        value = x
        for number, name in enumerate(names, 1):
            value = builder.emit_te(
                lambda tensor, number=number: tvm.topi.add(tensor, tvm.tirx.const(number, "float32")),
                value,
                primfunc_name_hint=name,
            )
        builder.emit_func_output(value)
    return builder.get()


def functions(module: "tvm.IRModule") -> set[str]:
    return {str(variable.name_hint) for variable in module.get_global_vars()} - {"main"}


def test_long_names_become_their_beginning_and_a_digest() -> None:
    module = module_with(f"{LONG}_a", f"{LONG}_b", "add")
    renamed = shorten_kernel_names(module)
    names = functions(renamed)
    assert len(names) == 3
    assert "add" in names
    assert all(len(name) <= LONGEST for name in names)
    assert all(name.startswith("fused_add_add") for name in names - {"add"})
    assert functions(module) == {f"{LONG}_a", f"{LONG}_b", "add"}
    assert functions(shorten_kernel_names(module)) == names


def test_a_renamed_module_computes_the_same() -> None:
    renamed = shorten_kernel_names(module_with(f"{LONG}_a", f"{LONG}_b", "add"))
    virtual_machine = tvm.relax.VirtualMachine(tvm.relax.build(renamed, "llvm"), tvm.cpu())
    found = virtual_machine["main"](tvm.runtime.tensor(np.zeros(4, "float32")))
    assert found.numpy().tolist() == [6.0] * 4


def test_short_names_stay() -> None:
    module = module_with("add", "x" * LONGEST)
    assert shorten_kernel_names(module).same_as(module)
