"""How many seeded faults `tvmake debug` locates: each operator of a network changed in turn, after the import and after the transform.

    python benchmarks/debug_faults.py resources/digits.onnx [--every N]

A fault makes the operator's first argument 1.3 times what it is, plus 0.1. *Located* means that the first wrong value is the
changed one (after the transform), or that of the source model's node which it was imported from (after the import).
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import tvm
import yaml
from tvm import relax

from tvmake.artifact.module_files import load_module, load_params, save_module
from tvmake.cli.results.debug import variant_files
from tvmake.debug.departure import difference
from tvmake.debug.relax_values import trace_operators
from tvmake.debug.search import Variant, diagnose
from tvmake.debug.source_values import source_values
from tvmake.validate.reference.stored import ReferenceSet


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a model's file, or zoo:<name>")
    parser.add_argument("--every", type=int, default=1, help="change every Nth operator only")
    options = parser.parse_args()
    source = options.model if options.model.startswith("zoo:") else str(Path(options.model).resolve())
    with tempfile.TemporaryDirectory(prefix="tvmake-debug-") as directory:
        os.chdir(directory)
        config = {"models": {"net": {"source": source}}, "targets": {"cpu": {"kind": "llvm", "mcpu": "native"}}}
        config |= {"precisions": ["float32"], "validation": {"samples": 2}, "benchmark": {"repeat": 1}}
        Path("tvmake.yaml").write_text(yaml.safe_dump(config))
        subprocess.run([Path(sys.executable).with_name("tvmake"), "make", "--quiet"], check=True)
        variant = variant_files(Path(), None, None, "net/float32/cpu")
        for level, file, params in (
            ("import", variant.imported, variant.imported_params),
            ("transform", variant.module, variant.params),
        ):
            outcomes = list(_faults(variant, level, file, params, options.every))
            located = sum(outcome == "located" for outcome in outcomes)
            seen = sum(outcome != "within the goals" for outcome in outcomes)
            print(
                f"{level}: {located} of {seen} located; {len(outcomes) - seen} more change nothing that the goals see"
            )
    return 0


def _faults(variant: Variant, level: str, file: Path, params: Path, every: int) -> Iterator[str]:
    module = load_module(file)
    original = file.read_bytes()
    calls = [
        binding.var for block in module["main"].body.blocks for binding in block.bindings if _is_float_call(binding)
    ]
    right = _values(variant, module, params)
    for number, variable in enumerate(calls[::every]):
        save_module(_changed(module, number * every), file)
        try:
            finding = diagnose(variant)[0].finding
        finally:
            file.write_bytes(original)
        if finding is None:
            outcome = "within the goals"
        elif level == "transform":
            outcome = "located" if finding.value.startswith("faulty") else f"found {finding.operator} ({finding.value})"
        else:
            outcome = _judged(variant, finding.value, right[number * every])
        print(f"  {level} {variable.name}: {outcome}", flush=True)
        yield outcome


def _judged(variant: Variant, found: str, right: np.ndarray) -> str:
    """Whether the source's value of that name is the one that the changed operator should have given."""
    sample = next(iter(ReferenceSet(variant.reference)))
    from tvmake.artifact import stage_json
    from tvmake.artifact.signature import Signature

    signature = stage_json.load(Signature, variant.signature)
    values = source_values(variant.source.source, variant.source, signature, sample.inputs)
    (value,) = (value for value in values if value.name == found)
    same = value.array.size == right.size and difference(value.array.reshape(right.shape), right) < 1e-3
    return "located" if same else f"found {value.operator}"


def _values(variant: Variant, module: "tvm.IRModule", params: Path) -> list[np.ndarray]:
    sample = next(iter(ReferenceSet(variant.reference)))
    weights = load_params(params)
    names = [str(parameter.name) for parameter in module["main"].params]
    tensors = [*sample.inputs.values(), *(weights[name].numpy() for name in names[len(sample.inputs) :])]
    steps = trace_operators(module, tensors).steps
    by_call = [step.result for step in steps if step.operator.startswith("relax.")]
    return [result for result in by_call if isinstance(result, np.ndarray) and result.dtype == np.float32]


def _is_float_call(binding: object) -> bool:
    value = binding.value
    if not isinstance(value, relax.Call) or not value.args:
        return False
    types = (value.ty, value.args[0].ty)
    return all(isinstance(ty, relax.TensorType) and str(ty.dtype) == "float32" for ty in types)


def _changed(module: "tvm.IRModule", which: int) -> "tvm.IRModule":
    @relax.expr_functor.mutator
    class Fault(relax.expr_functor.PyExprMutator):
        seen = -1

        def visit_var_binding_(self, binding):
            if not _is_float_call(binding):
                return super().visit_var_binding_(binding)
            self.seen += 1
            if self.seen != which:
                return super().visit_var_binding_(binding)
            first, *others = [self.visit_expr(argument) for argument in binding.value.args]
            scaled = self.builder_.emit(relax.op.multiply(first, relax.const(1.3, "float32")), name_hint="faulty")
            shifted = self.builder_.emit(relax.op.add(scaled, relax.const(0.1, "float32")), name_hint="faulty")
            call = relax.Call(binding.value.op, [shifted, *others], binding.value.attrs, binding.value.ty_args)
            self.set_var_remap(binding.var, self.builder_.emit(call, name_hint="faulty"))
            return None

    changed = tvm.IRModule(module.functions, attrs=module.attrs, global_infos=module.global_infos)
    changed["main"] = Fault().visit_expr(module["main"])
    return changed


if __name__ == "__main__":
    sys.exit(main())
