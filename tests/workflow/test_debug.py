"""`tvmake debug`: the stage, the operator and the cause of a variant that is wrong."""

import json

import pytest
import tvm
from tvm import relax

from tests.workflow.project import Project
from tvmake.artifact.module_files import load_module, save_module

LEAK = """
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator


@mutator
class Leak(PyExprMutator):
    def visit_call_(self, call):
        call = super().visit_call_(call)
        if getattr(call.op, "name", "") != "relax.nn.relu" or list(call.args[0].ty.shape)[1] != 32:
            return call
        return relax.op.nn.leakyrelu(call.args[0], 0.3)


def leak():
    def change(module, _):
        changed = tvm.IRModule(module.functions, attrs=module.attrs, global_infos=module.global_infos)
        changed["main"] = Leak().visit_expr(module["main"])
        return changed

    return tvm.transform.module_pass(change, opt_level=0)
"""


def test_a_right_variant_is_right_at_every_stage(demo: Project):
    done = demo.run("tvmake", "debug", "digits/float16/cpu", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["finding"] is None
    assert [level["level"] for level in found["levels"]] == ["import", "transform", "build", "device"]
    assert all(level["error"] < 0.05 and not level["missed"] for level in found["levels"])
    assert found["levels"][0]["error"] < found["levels"][1]["error"]


def test_the_page_has_the_noise_of_each_operator_if_the_config_asks_for_it(single: Project):
    single.edit("validation.operators", True)
    single.edit("benchmark.profile_ops", True)
    done = single.make()
    assert done.returncode == 0, done.stderr
    found = json.loads((single.directory / "results/digits/float32/cpu/operator_errors.json").read_text())
    assert not found["why_not"]
    noises = [operator["noise"] for operator in found["operators"]]
    assert len(noises) >= 5 and all(noise is not None and noise < 1e-5 for noise in noises)
    page = (single.directory / "results/index.html").read_text()
    assert '<th scope="col" class="n">noise</th>' in page
    assert f'<td class="n">{noises[-1]:.1e}</td>' in page


def test_a_goal_that_needs_labels_is_none_of_the_one_sample(single: Project):
    single.edit("models.digits.goals", {"top1": 0.5})
    assert single.make().returncode == 0
    done = single.run("tvmake", "debug", "digits/float32/cpu")
    assert done.returncode == 0 and "every stage meets the goals" in done.stdout, done.stdout


def test_a_goal_that_the_original_model_misses_too_blames_no_stage(single: Project):
    single.edit("models.digits.dataset.preprocess", {"scale": 1.0, "mean": [300.0]})
    single.edit("models.digits.goals", {"top1": 0.97})
    assert single.make().returncode == 4
    done = single.run("tvmake", "debug", "digits/float32/cpu")
    assert done.returncode == 4, done.stderr
    assert "no stage differs from the original model in this sample, and the package misses top1: " in done.stdout
    assert "the preprocessing, the labels or the goal may be wrong" in done.stdout


ROOTS = """
import torch


class Roots(torch.nn.Module):
    def forward(self, x):
        return torch.sqrt(-torch.exp(x)).sum(1)


def make():
    return Roots(), (torch.ones(2, 4),)
"""


def test_a_model_that_gives_nan_itself_does_not_blame_the_importer(fresh: Project):
    (fresh.directory / "roots.py").write_text(ROOTS)
    models = {"roots": {"source": "roots:make", "trusted": True}}
    fresh.write_config({"models": models, "validation": {"samples": 2}, "benchmark": {"baseline": False}})
    assert fresh.make().returncode == 4
    done = fresh.run("tvmake", "debug", "roots/float32/cpu")
    assert done.returncode == 4, done.stderr
    assert "first wrong: aten.sqrt.default" in done.stdout
    assert "cause:       model: the model itself computes NaN or infinity for it" in done.stdout
    assert "`models.roots.dataset`" in done.stdout


def test_of_a_variant_whose_build_failed_it_says_so_and_why(single: Project):
    (single.directory / "failing.py").write_text(
        "def fail():\n    def run(_):\n        raise ValueError('no kernel')\n    return run\n"
    )
    single.edit("transform.passes", [{"use": "failing:fail", "at": "after_fusion"}])
    single.edit("precisions", ["int8_weights"])
    assert single.make().returncode == 1
    done = single.run("tvmake", "debug", "digits/int8_weights/cpu")
    assert done.returncode == 1
    *_, first, second = done.stderr.splitlines()
    assert first.startswith("error: digits/int8_weights/cpu: build failed: pass failing:fail: failed at 'after_fusion'")
    assert first.endswith("(logs/digits/int8_weights/cpu/build.log)")
    assert "fix this, then run `tvmake make` again" in second


def test_an_older_package_is_not_looked_into_where_the_last_build_failed(single: Project):
    (single.directory / "failing.py").write_text(
        "def fail():\n    def run(_):\n        raise ValueError('no kernel')\n    return run\n"
    )
    single.edit("transform.passes", [{"use": "failing:fail", "at": "after_fusion"}])
    assert single.make().returncode == 1
    done = single.run("tvmake", "debug", "digits/float32/cpu")
    assert done.returncode == 1
    assert "error: digits/float32/cpu: build failed: pass failing:fail: failed at 'after_fusion'" in done.stderr


def test_a_package_of_another_network_is_not_looked_into(single: Project):
    (module,) = single.directory.glob("results/digits/float32/module.json")
    module.write_bytes(module.read_bytes() + b"\n")
    done = single.run("tvmake", "debug", "digits/float32/cpu")
    assert done.returncode == 1
    assert "package.tar: was built from another version of results/digits/float32/module.json" in done.stderr


def test_weights_in_8_bits_are_judged_with_their_scales(single: Project):
    single.edit("models.digits.goals", {"sqnr_db": 100})
    single.edit("precisions", ["int8_weights"])
    assert single.make().returncode == 4
    done = single.run("tvmake", "debug", "digits/int8_weights/cpu", "--json")
    assert done.returncode == 4, done.stderr
    finding = json.loads(done.stdout)["finding"]
    assert (finding["cause"], finding["operator"]) == ("precision", "int8_matmul")
    assert finding["error"] < 0.05
    assert "`precisions: {int8_weights: {never: [matmul]}}`" in finding["remedy"]


def test_a_pass_that_changes_what_is_computed_is_named_with_its_operator(single: Project):
    (single.directory / "broken.py").write_text(LEAK)
    single.edit("transform.passes", [{"use": "broken:leak", "at": "before_precision"}])
    assert single.make().returncode == 4
    done = single.run("tvmake", "debug", "digits/float32/cpu", "--reproducer", "repro")
    assert done.returncode == 4, done.stderr
    assert "first wrong: relax.nn.leakyrelu (" in done.stdout
    assert "cause:       pass: without the pass broken:leak all values are correct" in done.stdout
    written = single.directory / "repro"
    assert sorted(path.name for path in written.iterdir()) == ["diagnosis.json", "values.npz"]
    assert json.loads((written / "diagnosis.json").read_text())["finding"]["operator"] == "relax.nn.leakyrelu"
    again = single.run("tvmake", "debug", "digits/float32/cpu", "--reproducer", "repro")
    assert again.returncode == 1
    assert "already exists" in again.stderr


PAIR = """
from broken import leak


def after_leak():
    def change(module):
        assert "leakyrelu" in module.script(), "only after the other one"
        return module

    return change
"""


@pytest.mark.soak
def test_passes_that_need_each_other_are_named_together(single: Project):
    (single.directory / "broken.py").write_text(LEAK)
    (single.directory / "pair.py").write_text(PAIR)
    single.edit("transform.passes", [{"use": "pair:leak"}, {"use": "pair:after_leak"}])
    assert single.make().returncode == 4
    done = single.run("tvmake", "debug", "digits/float32/cpu")
    assert done.returncode == 4, done.stderr
    assert "cause:       pass: without the passes pair:leak, pair:after_leak all values are correct" in done.stdout
    assert "leave the passes pair:leak, pair:after_leak out, or correct them" in done.stdout


@pytest.mark.long
def test_a_pass_of_the_build_is_named_with_the_kernel_that_it_changes(single: Project):
    (single.directory / "broken.py").write_text(LEAK)
    single.edit("transform.passes", [{"use": "broken:leak", "at": "before_legalize"}])
    assert single.make().returncode == 4
    done = single.run("tvmake", "debug", "digits/float32/cpu")
    assert done.returncode == 4, done.stderr
    assert "first wrong: fused_" in done.stdout  # not the input in another layout
    assert "cause:       lowering: without the pass broken:leak all values are correct" in done.stdout


SHIFT = """
import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator


@mutator
class Shift(PyExprMutator):
    def visit_call_(self, call):
        call = self.visit_expr_post_order(call)
        if getattr(call.op, "name", "") != "relax.nn.conv2d" or str(call.ty.dtype) != "int32":
            return call
        return relax.op.add(self.builder_.emit(call), relax.const(np.int32(4000)))


def shift():
    def change(module):
        changed = Shift(module)
        changed.builder_.update_func(module.get_global_var("main"), changed.visit_expr(module["main"]))
        return changed.builder_.get()

    return change
"""


@pytest.mark.long
def test_a_pass_that_is_wrong_in_only_one_precision_is_distinguished_from_the_precision(single: Project):
    (single.directory / "broken.py").write_text(SHIFT)
    single.edit("transform.passes", [{"use": "broken:shift", "at": "after_precision"}])
    single.edit("precisions", ["int8"])
    single.edit("models.digits.goals", {"sqnr_db": 30.0})
    assert single.make().returncode == 4
    done = single.run("tvmake", "debug", "digits/int8/cpu")
    assert done.returncode == 4, done.stderr
    assert "first wrong: relax.add (" in done.stdout
    assert "cause:       pass: without the pass broken:shift all values are correct" in done.stdout


@pytest.mark.long
def test_of_a_network_in_8_bits_the_layers_that_cost_most_are_named(single: Project):
    single.edit("precisions", {"small": {"base": "int8"}})
    single.edit("models.digits.goals", {"sqnr_db": 38.0})
    assert single.make().returncode == 4
    done = single.run("tvmake", "debug", "digits/small/cpu", "--reproducer", "repro")
    assert done.returncode == 4, done.stderr
    assert "costs most:  relax.nn.conv2d (" in done.stdout
    assert "remedy:      `base: auto` measures which layers bear it" in done.stdout
    found = json.loads((single.directory / "repro/diagnosis.json").read_text())["finding"]
    shares = [layer["share"] for layer in found["layers"]]
    assert len(shares) == 4 and shares == sorted(shares, reverse=True) and abs(sum(shares) - 1) < 1e-6


def test_goals_beyond_float32_blame_no_operator(single: Project):
    single.edit("models.digits.goals", {"sqnr_db": 190.0})
    assert single.make().returncode == 4
    done = single.run("tvmake", "debug", "digits/float32/cpu")
    assert done.returncode == 4, done.stderr
    assert "cause:       rounding: the goals are beyond float32" in done.stdout
    assert "no operator differs more than others; the last: " in done.stdout and "first wrong" not in done.stdout
    assert "no operator is wrong; goals that this package meets: " in done.stdout


LOUD = """
import ctypes
import subprocess


def loud():
    print("of Python")
    ctypes.CDLL(None).puts(b"of C")
    subprocess.run(["echo", "of a child"])
    return lambda module: module
"""


def test_what_a_users_code_prints_is_not_in_the_document(single: Project):
    (single.directory / "mine.py").write_text(LOUD)
    single.edit("transform.passes", [{"use": "mine:loud", "at": "before_legalize"}])
    assert single.make().returncode == 0
    done = single.run("tvmake", "debug", "digits/float32/cpu", "--json")
    assert json.loads(done.stdout)["variant"] == "digits/float32/cpu"
    for what in ("Python", "C", "a child"):
        assert f"of {what}\n" in done.stderr


def test_a_wrong_import_is_named_by_the_source_models_node(single: Project):
    imported = single.directory / "results/digits/model.json"
    module = load_module(imported)

    @relax.expr_functor.mutator
    class Taller(relax.expr_functor.PyExprMutator):
        def visit_call_(self, call):
            call = super().visit_call_(call)
            is_pool = getattr(call.op, "name", "") == "relax.nn.max_pool2d"
            return relax.op.nn.avg_pool2d(call.args[0], (2, 2), (2, 2)) if is_pool else call

    changed = tvm.IRModule(module.functions, attrs=module.attrs, global_infos=module.global_infos)
    changed["main"] = Taller().visit_expr(module["main"])
    save_module(changed, imported)
    done = single.run("tvmake", "debug", "digits/float32/cpu")  # the package exists already
    assert done.returncode == 0 and "the package meets the goals; import missed goals" in done.stdout, done.stdout
    unmet = ("-s", "models.digits.goals.sqnr_db=190")
    done = single.run("tvmake", "debug", "digits/float32/cpu", "--json", *unmet)
    assert done.returncode == 4, done.stderr
    finding = json.loads(done.stdout)["finding"]
    assert finding["cause"] == "importer"
    assert finding["operator"].startswith("MaxPool")


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("digits/float32/gpu", "no such variant or model"),
        ("digits", "has 2 variants"),
    ],
)
def test_a_name_of_several_variants_is_refused(demo: Project, named: str, said: str):
    done = demo.run("tvmake", "debug", named)
    assert done.returncode == 1
    assert said in done.stderr


def test_a_variant_that_is_not_made_is_refused(fresh: Project):
    done = fresh.run("tvmake", "debug", "digits/float32/cpu")
    assert done.returncode == 1
    assert "no such file" in done.stderr and "tvmake make" in done.stderr
