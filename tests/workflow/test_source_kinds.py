"""Networks that are neither ONNX nor PyTorch pass the whole workflow, and are imported again if their sources change."""

import json
from pathlib import Path

from tests.requirements import need_module
from tests.workflow.project import Project, new_project

RELAX = """
import numpy as np
from tvm import relax

SLOPE = 1.0


def network(width=4):
    builder = relax.BlockBuilder()
    x, w = (relax.Var(name, relax.TensorType((width, width), "float32")) for name in "xw")
    with builder.function("main", [x, w]):
        with builder.dataflow():
            y = builder.emit_output(relax.op.nn.relu(relax.op.matmul(x, w)))
        builder.emit_func_output(y)
    return builder.finalize(), {"w": SLOPE * np.random.standard_normal((width, width)).astype("float32")}
"""


def alone(project: Project, model: dict[str, object]) -> None:
    project.edit("models", {"network": model})
    project.edit("precisions", ["float32"])


def test_a_relax_module_is_built_and_rebuilt_when_its_file_changes(tmp_path: Path):
    project = new_project(tmp_path / "project")
    (project.directory / "networks.py").write_text(RELAX)
    alone(project, {"source": "networks:network", "format": "relax", "trusted": True})
    package = "results/network/float32/cpu/package.tar"
    done = project.make(package)
    assert done.returncode == 0, done.stderr
    assert not project.planned_rules(package)
    (project.directory / "networks.py").write_text(RELAX.replace("1.0", "2.0"))
    assert "import" in project.planned_rules(package)


def test_a_stablehlo_file_is_made_and_judged_by_jax(tmp_path: Path):
    need_module("jax", "pip install 'tvmake[stablehlo]'")
    import jax.numpy as jnp

    from tests.frontend.stablehlo.programs import drawn, write

    project = new_project(tmp_path / "project")
    weight = drawn(3, 3, 3, 8, seed=1)

    def network(image):
        from jax import lax, nn

        found = lax.conv_general_dilated(image, weight, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return nn.softmax(jnp.mean(nn.gelu(found), (1, 2)))

    write(project.directory / "network.mlir", network, drawn(1, 8, 8, 3))
    alone(project, {"source": "network.mlir"})
    done = project.make()
    assert done.returncode == 0, done.stderr
    [row] = json.loads((project.directory / "results/summary.json").read_text())["rows"]
    assert row["verdict"] == "pass" and row["speedup"] > 0
