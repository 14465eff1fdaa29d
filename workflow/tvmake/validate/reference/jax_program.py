"""StableHLO programs through jax, that is through XLA."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tvmake.artifact.signature import Signature
from tvmake.errors import InputError, MachineError
from tvmake.frontend.options import ImportOptions
from tvmake.validate.runtime import Runtime, library_version


def open_model(source: str, _options: ImportOptions, signature: Signature) -> Runtime:
    """The program in jax, on the CPU.

    Raises:
        InputError: the file cannot be read, or XLA refuses the program.
        MachineError: jax is not installed.
    """
    call = load_callable(source)
    names = [spec.name for spec in signature.outputs]

    def run(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        try:
            outputs = call(*(inputs[spec.name] for spec in signature.inputs))
        except (RuntimeError, TypeError, ValueError) as error:
            line = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
            problem = f"jax cannot run it: {type(error).__name__}: {line[:200]}"
            raise InputError(source, problem, "export it again, for the CPU") from None
        return {name: np.asarray(value) for name, value in zip(names, outputs, strict=True)}

    return Runtime(library_version("jax"), run)


def load_callable(source: str) -> Callable[..., Any]:
    """The program as a function of arrays, in the order of its arguments, that returns a list.

    Programs with dynamic dimensions are compiled for each set of shapes.
    """
    try:
        import jax
    except ImportError:
        raise MachineError(
            source, "running a StableHLO program needs jax", "install it with `pip install tvmake[stablehlo]`"
        ) from None
    from tvmake.frontend.stablehlo.source import load

    names = [spec.name for spec in load(Path(source)).signature.inputs]
    compiled: dict[tuple[tuple[int, ...], ...], Any] = {}

    def call(*inputs: Any) -> Any:
        shapes = tuple(tuple(value.shape) for value in inputs)
        # Computations with 64-bit types are computed in 64 bits.
        with jax.enable_x64(True), jax.default_device(jax.devices("cpu")[0]):
            if shapes not in compiled:
                compiled[shapes] = jax.jit(_export_for_shapes(source, dict(zip(names, shapes, strict=True))).call)
            return compiled[shapes](*inputs)

    return call


def _export_for_shapes(source: str, shapes: Mapping[str, tuple[int, ...]]) -> Any:
    """The program for inputs of some shapes, as jax exports it.

    Raises:
        RuntimeError, ValueError: the program is not for these shapes.
    """
    import jax
    from jax.extend import mlir
    from jax.extend.mlir.dialects import stablehlo

    from tvmake.frontend.stablehlo.source import has_dynamic_dimensions, load, with_shapes

    program = load(Path(source))
    if has_dynamic_dimensions(program):
        program = with_shapes(program, [shapes[spec.name] for spec in program.signature.inputs])
    inputs, outputs = (
        tuple(jax.core.ShapedArray(spec.shape, np.dtype(spec.dtype)) for spec in specs)
        for specs in (program.signature.inputs, program.signature.outputs)
    )
    return jax.export.Exported(
        fun_name="main",
        in_tree=jax.tree_util.tree_structure(((0,) * len(inputs), {})),
        in_avals=inputs,
        out_tree=jax.tree_util.tree_structure([0] * len(outputs)),
        out_avals=outputs,
        _has_named_shardings=False,
        _in_named_shardings=(None,) * len(inputs),
        _out_named_shardings=(None,) * len(outputs),
        in_shardings_hlo=(None,) * len(inputs),
        out_shardings_hlo=(None,) * len(outputs),
        nr_devices=1,
        platforms=("cpu",),
        ordered_effects=(),
        unordered_effects=(),
        disabled_safety_checks=(),
        mlir_module_serialized=mlir.serialize_portable_artifact(program.module, stablehlo.get_current_version()),
        calling_convention_version=jax.export.maximum_supported_calling_convention_version,
        module_kept_var_idx=tuple(range(len(inputs))),
        uses_global_constants=False,
        _get_vjp=None,
    )
