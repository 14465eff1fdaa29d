"""Number of seeded faults that `tvmake debug` locates: each operator of a network changed, at every stage.

    python benchmarks/debug_faults.py resources/digits.onnx [--every N] [--at import transform precision schedule]

Each fault is a package of its own, made of what the fault is in:

- import, transform: the operator's first argument is 1.3 times what it is, plus 0.1;
- precision: the operator's first argument is a million times what it is, and its result a millionth, which float32 does not mind and
  float16 overflows at;
- schedule: what the kernel writes is 1.3 times what it should be, plus 0.1, in its schedule alone.

*Located* means that the first wrong value is the changed one (after the import: that of the source model's node which it was imported from, or is part of)
and that the cause is the stage's.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import tvm
import tvm_ffi
import yaml
from tvm import relax

from tvmake.artifact import stage_json
from tvmake.artifact.module_files import load_module, save_module
from tvmake.artifact.signature import Signature
from tvmake.artifact.weights.tensors import load_params
from tvmake.cli.results.debug import variant_files
from tvmake.codegen import generating
from tvmake.codegen.link import generate
from tvmake.codegen.lowering import Lowered
from tvmake.config.requests.building import ExportRequest
from tvmake.debug.departure import difference
from tvmake.debug.diagnosis import Finding
from tvmake.debug.relax_values import trace_operators
from tvmake.debug.search import diagnose
from tvmake.debug.source_values import source_values
from tvmake.debug.variant import Variant
from tvmake.ir.expressions import dtype_name, variables
from tvmake.stages.model.transform import transform_model
from tvmake.stages.package.build import build
from tvmake.stages.package.export import export
from tvmake.targets.resolve import tvm_target
from tvmake.validate.reference.stored import ReferenceSet

SCALE = 1e6
CAUSES = {"import": "importer", "transform": "pass", "precision": "precision", "schedule": "schedule"}
PRECISIONS = {"precision": "float16"}
HOMOGENEOUS = ("nn.conv2d", "matmul", "nn.relu", "nn.max_pool2d", "nn.avg_pool2d", "nn.leakyrelu", "mean", "reshape")
"""Operators whose results grow as their arguments do."""

lower_and_generate = generating.lower_and_generate
Fault = Callable[[Any, Any], Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a model's file, or zoo:<name>")
    parser.add_argument("--every", type=int, default=1, help="change every Nth operator only")
    parser.add_argument("--at", nargs="+", choices=CAUSES, default=list(CAUSES), help="where faults are")
    options = parser.parse_args()
    source = options.model if options.model.startswith("zoo:") else str(Path(options.model).resolve())
    all_located = True
    with tempfile.TemporaryDirectory(prefix="tvmake-debug-") as directory:
        os.chdir(directory)
        config = {"models": {"net": {"source": source}}, "targets": {"cpu": {"kind": "llvm", "mcpu": "native"}}}
        config |= {"precisions": ["float32", "float16"], "validation": {"samples": 2}, "benchmark": {"repeat": 1}}
        Path("tvmake.yaml").write_text(yaml.safe_dump(config))
        subprocess.run([Path(sys.executable).with_name("tvmake"), "make", "--quiet"], check=True)
        for level in options.at:
            variant = variant_files(Path(), None, None, f"net/{PRECISIONS.get(level, 'float32')}/cpu")
            outcomes = list(_faults(variant, level, options.every))
            located = sum(outcome == "located" for outcome in outcomes)
            seen = sum(outcome != "within the goals" for outcome in outcomes)
            all_located &= located == seen > 0
            print(
                f"{level}: {located} of {seen} located; {len(outcomes) - seen} more change nothing that the goals see"
            )
    return 0 if all_located else 1


def _faults(variant: Variant, level: str, every: int) -> Iterator[str]:
    if level == "schedule":
        lowered = lower_and_generate(*_building(variant))[0]
        for name in [name for name in lowered.fused.functions if _is_float_kernel(lowered.fused[name])][::every]:
            with _wrong_schedule(str(name.name_hint)):
                yield _outcome(
                    variant, level, str(name.name_hint), lambda found, _, name=name: found.operator == name.name_hint
                )
        return
    is_transform = level == "transform"
    module = load_module(variant.module if is_transform else variant.imported)
    chosen = [
        (number, variable.name)
        for number, (variable, call) in enumerate(_float_calls(module))
        if level != "precision" or str(call.op.name).removeprefix("relax.") in HOMOGENEOUS
    ]
    right = _values(variant, module) if level == "import" else []
    fault = _overflowing if level == "precision" else _shifted
    with tempfile.TemporaryDirectory(prefix="tvmake-fault-") as directory:
        file = Path(directory) / "changed.json"
        for number, name in chosen[::every]:
            save_module(_changed(module, number, fault), file)
            changed = replace(variant, **{"module" if is_transform else "imported": file})

            def is_it(found: Finding, made: Variant, number: int = number, name: str = str(name)) -> bool:
                if right:
                    return _is_of_source(variant, found, right[number:])
                return bool({name, "faulty"} & _near(made, found))

            yield _outcome(changed, level, name, is_it)


def _outcome(variant: Variant, level: str, name: str, is_it: Callable[[Finding, Variant], bool]) -> str:
    with tempfile.TemporaryDirectory(prefix="tvmake-fault-") as directory:
        made = _made(variant, level, Path(directory))
        finding = diagnose(made)[0].finding
        is_right = finding is not None and finding.cause == CAUSES[level] and is_it(finding, made)
    if finding is None:
        outcome = "within the goals"
    elif is_right:
        outcome = "located"
    else:
        outcome = f"found {finding.cause}: {finding.operator} ({finding.value})"
    print(f"  {level} {name}: {outcome}", flush=True)
    return outcome


def _near(variant: Variant, found: Finding) -> set[str]:
    """The name of the value that was found, and where that is a cast those of what it casts; of faulty ones without their number."""
    name = found.value.partition("#")[0]
    near = {name}
    if found.operator == "relax.astype":
        for block in load_module(variant.module)["main"].body.blocks:
            near |= {
                str(value.name)
                for binding in block.bindings
                if binding.var.name == name
                for value in variables(binding.value)
            }
    return {"faulty" if one.startswith("faulty") else one for one in near}


def _made(variant: Variant, level: str, directory: Path) -> Variant:
    """The variant, with everything after the fault rebuilt."""
    bound = directory / "signature.json"
    if level in ("import", "precision"):
        module, params = directory / "module.json", directory / "module.params"
        transform_model(
            variant.imported, variant.imported_params, variant.signature, variant.transforming, module, params, bound
        )
        variant = replace(variant, module=module, params=params)
    built = [directory / name for name in ("mod.so", "mod.json", "packing.json")]
    build(variant.module, variant.params, variant.signature, variant.building, *built, directory / "sources")
    package = directory / "package.tar"
    export(*built, variant.params, ExportRequest(), package)
    return replace(variant, package=package)


def _building(variant: Variant) -> tuple[Any, ...]:
    request = variant.building
    inputs = len(stage_json.load(Signature, variant.signature).inputs)
    return load_module(variant.module), tvm_target(request.target, "targets.cpu"), request, inputs


def _wrong_schedule(name: str) -> Any:
    """While it is open, every build schedules one kernel wrongly."""

    def wrong(module: Any, target: Any, request: Any, *others: Any, **options: Any) -> tuple[Lowered, Any]:
        lowered, _ = lower_and_generate(module, target, request, *others, **options)
        final = _replaced(lowered.final, name)
        unpacked = None if lowered.unpacked is None else _replaced(lowered.unpacked, name)
        code = generate(final, target, request.build, f"targets.{request.target_name}")
        return replace(lowered, final=final, unpacked=unpacked), code

    stack = ExitStack()
    for position in ("tvmake.codegen.generating", "tvmake.debug.search"):
        stack.enter_context(mock.patch(f"{position}.lower_and_generate", wrong))
    return stack


def _replaced(module: "tvm.IRModule", name: str) -> "tvm.IRModule":
    function = module[name]
    written = function.params[-1]

    def off(store: Any) -> Any:
        if not store.buffer.same_as(written):
            return store
        value = store.value * tvm.tirx.const(1.3, "float32") + tvm.tirx.const(0.1, "float32")
        return tvm.tirx.BufferStore(store.buffer, value, store.indices)

    body = tvm_ffi.structural_map(function.body, [(tvm.tirx.BufferStore, off)])
    changed = tvm.IRModule(module.functions, attrs=module.attrs, global_infos=module.global_infos)
    changed[name] = function.with_body(body)
    return changed


def _is_float_kernel(function: Any) -> bool:
    return isinstance(function, tvm.tirx.PrimFunc) and all(
        dtype_name(parameter.ty) == "float32" for parameter in function.params
    )


def _is_of_source(variant: Variant, found: Finding, right: Sequence[np.ndarray]) -> bool:
    """Whether it is the source's value that the changed operator should have given, or the next one where the source has none such.

    Args:
        right: what the changed operator and those after it give without the fault.
    """
    sample = next(iter(ReferenceSet(variant.reference)))
    signature = stage_json.load(Signature, variant.signature)
    values = source_values(variant.source.source, variant.source, signature, sample.inputs)
    for wanted in right:
        same = [value.name for value in values if _is_same(value.array, wanted)]
        if same:
            return found.value in same
    return False


def _is_same(one: np.ndarray, other: np.ndarray) -> bool:
    return one.size == other.size and difference(one.reshape(other.shape), other) < 1e-3


def _values(variant: Variant, module: "tvm.IRModule") -> list[np.ndarray]:
    sample = next(iter(ReferenceSet(variant.reference)))
    weights = load_params(variant.imported_params)
    names = [str(parameter.name) for parameter in module["main"].params]
    tensors = [*sample.inputs.values(), *(weights[name].numpy() for name in names[len(sample.inputs) :])]
    steps = trace_operators(module, tensors).steps
    by_call = [step.result for step in steps if step.operator.startswith("relax.")]
    return [result for result in by_call if isinstance(result, np.ndarray) and result.dtype == np.float32]


def _float_calls(module: "tvm.IRModule") -> list[tuple[Any, Any]]:
    return [
        (binding.var, binding.value)
        for block in module["main"].body.blocks
        for binding in block.bindings
        if _is_float_call(binding)
    ]


def _is_float_call(binding: object) -> bool:
    value = binding.value
    if not isinstance(value, relax.Call) or not value.args:
        return False
    types = (value.ty, value.args[0].ty)
    return all(isinstance(ty, relax.TensorType) and str(ty.dtype) == "float32" for ty in types)


def _shifted(builder: Any, call: Any) -> Any:
    first, *others = call.args
    scaled = builder.emit(relax.op.multiply(first, relax.const(1.3, "float32")), name_hint="faulty")
    shifted = builder.emit(relax.op.add(scaled, relax.const(0.1, "float32")), name_hint="faulty")
    return relax.Call(call.op, [shifted, *others], call.attrs, call.ty_args)


def _overflowing(builder: Any, call: Any) -> Any:
    first, *others = call.args
    large = builder.emit(relax.op.multiply(first, relax.const(SCALE, "float32")), name_hint="faulty")
    result = builder.emit(relax.Call(call.op, [large, *others], call.attrs, call.ty_args), name_hint="faulty")
    return relax.op.multiply(result, relax.const(1 / SCALE, "float32"))


def _changed(module: "tvm.IRModule", which: int, fault: Fault) -> "tvm.IRModule":
    @relax.expr_functor.mutator
    class Faulty(relax.expr_functor.PyExprMutator):
        seen = -1

        def visit_var_binding_(self, binding):
            if not _is_float_call(binding):
                return super().visit_var_binding_(binding)
            self.seen += 1
            if self.seen != which:
                return super().visit_var_binding_(binding)
            call = self.visit_expr(binding.value)
            self.builder_.emit_normalized(
                relax.VarBinding(binding.var, self.builder_.normalize(fault(self.builder_, call)))
            )
            return None

    changed = tvm.IRModule(module.functions, attrs=module.attrs, global_infos=module.global_infos)
    changed["main"] = Faulty().visit_expr(module["main"])
    return changed


if __name__ == "__main__":
    sys.exit(main())
