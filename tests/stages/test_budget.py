"""The budget stage reads each variant's kernels with that variant's trials, in whatever order a config names its models."""

from pathlib import Path

import yaml

from tvmake.artifact import stage_json
from tvmake.artifact.tasks import Task, TaskList
from tvmake.config.reading.load import check
from tvmake.config.requests.tuning import BudgetRequest
from tvmake.stages.context import JobContext
from tvmake.stages.registry import patterns
from tvmake.stages.tuning.budget import STAGE, budget_request, spread_trials
from tvmake.storage.files import canonical_json

TEXT = """
models:
  zebra: {source: zebra.onnx, tuning: {trials_per_kernel: 9}}
  ape: {source: ape.onnx}
targets:
  cpu: {kind: llvm, mcpu: native, tuning: {trials_per_kernel: 5}}
"""


def test_each_kernel_gets_the_trials_of_the_variant_that_contains_it(tmp_path: Path):
    job = JobContext(check(yaml.safe_load(TEXT), {}), patterns()).at({"target": "cpu", "number": "1"})
    paths = STAGE.inputs[0].paths(job)
    keys = {}
    for path in paths:
        model = next(name for name in ("zebra", "ape") if name in path)
        keys[model] = ("1" if model == "ape" else "2") * 64
        file = tmp_path / path
        (file.parent / "workloads").mkdir(parents=True)
        (file.parent / "workloads" / f"{keys[model]}.json").write_text("{}")
        task = Task(workload=keys[model], names=["conv"], calls=1, flops=1e9)
        stage_json.save(TaskList(target="{}", generation="tvm-0", tasks=[task]), file)
    # The command reads the request as JSON, whose members are sorted.
    request = BudgetRequest.model_validate_json(canonical_json(budget_request(job).model_dump(mode="json")))
    outputs = tmp_path / "budget.json", tmp_path / "kernels"
    spread = spread_trials([tmp_path / path for path in paths], [], request, *outputs)
    found = {kernel.users[0]: (workload, kernel.trials) for workload, kernel in spread.kernels.items()}
    half = job.rounds
    assert found == {"zebra/float32": (keys["zebra"], round(9 / half)), "ape/float32": (keys["ape"], round(5 / half))}
