"""`tvmake init`: a starter config from a model."""

from pathlib import Path

import onnx
import pytest
import torch
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from onnx import TensorProto, helper

from tests.decoders import write_onnx_config, write_onnx_decoder
from tests.frontend.test_checkpoint import shard, write_config
from tvmake.cli.init import init
from tvmake.config.documents.schema import config_schema
from tvmake.config.documents.starter import StarterInput, dynamic_sizes, model_name, starter
from tvmake.config.reading.load import load
from tvmake.errors import InputError
from tvmake.plan.plan import Plan

RESOURCES = Path(__file__).resolve().parents[2] / "resources"


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(model: str) -> Plan:
    init([model], Path("tvmake.yaml"), force=False)
    return Plan(load([Path("tvmake.yaml")]))


def uncommented(text: str) -> dict:
    """The config with every commented key enabled, which must be valid too."""
    lines = []
    for line in text.splitlines():
        code = line.lstrip()
        key = code.removeprefix("# ") if code.startswith("# ") else code
        is_key = key.lstrip().startswith("- ") or (key.partition(":")[0].strip().isidentifier() and ":" in key)
        prose = key.startswith(("quick:", "tvmake", "mlperf"))
        if code.startswith("# ") and is_key and not prose:
            indent = line[: len(line) - len(code)]
            lines.append(indent + key)
        elif not code.startswith("#"):
            lines.append(line)
    return yaml.safe_load("\n".join(lines))


@pytest.mark.parametrize("name", ["digits.onnx", "digits.pt2"])
def test_a_model_file_becomes_a_config_that_loads_and_shows_the_inputs(name, capsys):
    plan = written(str(RESOURCES / name))
    assert [str(variant) for variant in plan.variants] == ["digits/float32/cpu"]
    text = Path("tvmake.yaml").read_text()
    assert "image: {shape: [1, 1, 8, 8], dtype: float32}" in text
    assert "tvmake make" in capsys.readouterr().out


def test_dynamic_dimensions_are_listed_with_what_they_are_taken_for_and_stay_dynamic(capsys):
    image = helper.make_tensor_value_info("image:0", TensorProto.FLOAT, ["batch", 3, None, None])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3, None, None])
    graph = helper.make_graph([helper.make_node("Relu", ["image:0"], ["y"])], "g", [image], [result])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), "net.onnx")
    plan = written("net.onnx")
    assert plan.config.models["net"].dims == {}
    text = Path("tvmake.yaml").read_text()
    assert "#   batch: {max: 8}  # or 1; axis 0 of image:0\n" in text
    assert "{max: 896}  # or 224; height, axis 2 of image:0\n" in text
    model = uncommented(text)["models"]["net"]
    assert model["dims"] == {name: {"max": 8 if name == "batch" else 896} for name in model["validation"]["dims"]}
    assert "any size: `dims: {batch: 1}` fixes it, `dims: {batch: {max: 8}}` bounds it" in capsys.readouterr().out
    assert "inputs" not in yaml.safe_load(text)["models"]["net"]


def test_a_first_axis_that_counts_time_is_no_batch(capsys):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["time", "batch", 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["time", "batch", 4])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), "net.onnx")
    written("net.onnx")
    assert "dynamic dimension time (length of a sequence, axis 0 of x)" in capsys.readouterr().out


def test_a_past_may_be_empty_in_the_bounds_that_are_shown(capsys):
    cache = helper.make_tensor_value_info("cache", TensorProto.FLOAT, [1, "past_len", 4])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, "past_len", 4])
    graph = helper.make_graph([helper.make_node("Relu", ["cache"], ["y"])], "g", [cache], [result])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), "net.onnx")
    written("net.onnx")
    assert "`dims: {past_len: {min: 0, max: " in capsys.readouterr().out
    assert "#   past_len: {min: 0, max: " in Path("tvmake.yaml").read_text()


def test_an_input_without_axes_is_shown_with_a_value():
    rate = helper.make_tensor_value_info("rate", TensorProto.INT64, [])
    graph = helper.make_graph(
        [helper.make_node("Neg", ["rate"], ["y"])],
        "g",
        [rate],
        [helper.make_tensor_value_info("y", TensorProto.INT64, [])],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), "net.onnx")
    written("net.onnx")
    assert "#   rate: {value: 16000}  # if it always has one value" in Path("tvmake.yaml").read_text()


def test_bounds_that_the_file_states_are_written(capsys):
    length = torch.export.Dim("length", min=3, max=512)
    program = torch.export.export(torch.nn.ReLU(), (torch.zeros(1, 7),), dynamic_shapes=({1: length},))
    torch.export.save(program, "net.pt2")
    written("net.pt2")
    text = Path("tvmake.yaml").read_text()
    ((name, bounds),) = uncommented(text)["models"]["net"]["dims"].items()
    assert bounds == {"min": 3, "max": 512}
    assert f"{name}: {{min: 3, max: 512}}  # or 512; length of a signal, axis 1 of input, as the model states" in text
    line = (
        f"dynamic dimension {name} (length of a signal, axis 1 of input), 3 to 512: `dims: {{{name}: 512}}` fixes it\n"
    )
    assert line in capsys.readouterr().out


def test_files_with_the_models_weights_are_listed():
    onnx.save(
        onnx.load(RESOURCES / "digits.onnx"), "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0
    )
    assert written("m.onnx").config.models["m"].files == ["w.bin"]


def test_a_zoo_network_shows_its_arguments():
    plan = written("zoo:mobilenet_v2")
    assert list(plan.config.models) == ["mobilenet_v2"]
    assert "width: 1.0" in Path("tvmake.yaml").read_text()


def test_a_factory_is_named_and_not_called():
    Path("networks.py").write_text("def make_net(): ...\nraise SystemExit('imported')\n")
    plan = written("networks:make_net")
    assert plan.config.models["make_net"].trusted
    assert plan.source_files("make_net") == ["networks.py"]


def test_a_file_with_the_name_of_a_module_that_is_found_before_it_is_refused():
    Path("json.py").write_text("def make_net(): ...\n")
    with pytest.raises(InputError, match="has the name of another Python module"):
        written("json:make_net")


def test_a_directory_of_the_same_name_hides_no_file(directory, monkeypatch):
    (directory / "elsewhere" / "my_networks").mkdir(parents=True)
    monkeypatch.syspath_prepend(directory / "elsewhere")
    Path("my_networks.py").write_text("def make_net(): ...\n")
    assert written("my_networks:make_net").source_files("make_net") == ["my_networks.py"]


def test_every_example_in_the_comments_is_a_valid_key(directory):
    written(str(RESOURCES / "digits.onnx"))
    values = uncommented(Path("tvmake.yaml").read_text())
    assert {"variants", "transform", "build", "validation", "results"} <= values.keys()
    assert {"inputs", "dataset", "goals"} <= values["models"]["digits"].keys()
    assert len(values["targets"]) == 4
    assert len(values["precisions"]) == 6
    assert [error.message for error in Draft202012Validator(config_schema()).iter_errors(values)] == []
    Path("all.yaml").write_text(yaml.safe_dump(values))
    assert Plan(load([Path("all.yaml")])).variants


def test_a_model_with_the_longest_name_is_read_and_the_next_command_can_be_typed(directory, capsys):
    name = f"{'n' * 250}.onnx"
    (directory / name).write_bytes((RESOURCES / "digits.onnx").read_bytes())
    init([name], Path("my config.yaml"), force=False)
    assert "`tvmake check -c 'my config.yaml'`" in capsys.readouterr().out


def test_an_existing_file_is_kept_unless_forced():
    Path("tvmake.yaml").write_text("mine")
    with pytest.raises(InputError, match="already exists"):
        init(["zoo:resnet18"], Path("tvmake.yaml"), force=False)
    assert Path("tvmake.yaml").read_text() == "mine"
    init(["zoo:resnet18"], Path("tvmake.yaml"), force=True)
    assert load([Path("tvmake.yaml")]).models


@pytest.mark.parametrize(
    ("model", "problem", "remedy"),
    [
        ("none.onnx", "no such file", "name the model"),
        ("README.md", "no such file", "expected .onnx"),
        ("net.pth", "cannot tell its format", "torch.export.save"),
        ("net.pb", "cannot tell its format", "ONNX"),
        ("net.txt", "cannot tell its format", "expected .onnx"),
        ("zoo:resnet81", "no network 'resnet81'", "did you mean 'zoo:resnet18'?"),
        ("a\tb.onnx", "control character", "remove it"),
        ("nowhere.to.be:found", "no Python module", "working directory"),
    ],
)
def test_a_file_that_is_not_a_model_is_refused_and_nothing_is_written(model, problem, remedy):
    if "format" in problem:
        Path(model).write_bytes(b"?")
    with pytest.raises(InputError) as caught:
        init([model], Path("tvmake.yaml"), force=False)
    assert problem in caught.value.problem
    assert remedy in caught.value.remedy
    assert not Path("tvmake.yaml").exists()


@given(st.text(min_size=1, max_size=20))
def test_any_source_gives_a_name_that_the_config_takes(source):
    assert load_text(f"models: {{{model_name(source + '.onnx')!r}: {{source: net.onnx}}}}").models


names = st.text(min_size=1, max_size=8).filter(lambda text: text.isprintable() or "\n" in text)


@given(
    st.lists(
        st.tuples(names, st.lists(st.integers(1, 9) | st.sampled_from(["N", "seq_len", "2*s0"]), max_size=4)),
        max_size=3,
    )
)
def test_any_input_names_and_shapes_give_a_config_that_loads(inputs):
    entries = [StarterInput(name, shape, "float32", None) for name, shape in inputs]
    text = starter("net.onnx", entries, "onnx")
    assert load_text(text).models["net"].dims == {}
    assert all(f"#   {name}: " in text for name in dynamic_sizes(entries))


def load_text(text: str):
    from tvmake.config.reading.load import check

    return check(yaml.safe_load(text), {})


def test_dimensions_are_those_of_the_package(tmp_path, capsys):
    """The import merges dimensions that are always equal, and finds the smallest size with which a window fits."""
    graph = helper.make_graph(
        [
            helper.make_node("MaxPool", ["x"], ["pooled"], kernel_shape=[5]),
            helper.make_node("Concat", ["pooled", "state"], ["y"], axis=2),
        ],
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, "length"]),
            helper.make_tensor_value_info("state", TensorProto.FLOAT, ["states", 3, 2]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), "m.onnx")
    init(["m.onnx"], Path("tvmake.yaml"), force=False)
    printed = capsys.readouterr().out
    assert "input state: float32 [batch, 3, 2]" in printed
    assert "axis 2 of x), 5 or more: `dims: {length" in printed
    assert "[states" not in printed + Path("tvmake.yaml").read_text()


def test_a_directory_of_a_language_model_gets_the_bounds_of_its_context(directory):
    (directory / "tiny").mkdir()
    write_config(directory / "tiny")
    (directory / "tiny/model.safetensors").write_bytes(shard())
    model = written("tiny/").config.models["tiny"]
    assert model.shapes == [{"sequence": 1}]
    assert (model.dims["past"].min, model.dims["past"].max) == (0, 63)
    assert (model.validation.samples, model.validation.steps) == (64, 32)


@pytest.mark.parametrize("file", ["model.onnx", "onnx/decoder_with_past_model.onnx"])
def test_a_directory_of_an_exported_decoder_gets_states_mask_and_bounds(directory, file):
    path = directory / "tiny" / file
    path.parent.mkdir(parents=True)
    write_onnx_config(directory / "tiny")
    write_onnx_decoder(path, has_positions=True)
    (path.parent / "decoder_model.onnx").write_bytes(b"the other of the pair")
    [model] = written("tiny").config.models.values()
    assert model.source == f"tiny/{file}"
    assert model.state == {f"past_key_values.0.{kind}": f"present.0.{kind}" for kind in ("key", "value")}
    assert model.inputs["attention_mask"].value == 1
    assert model.inputs["input_ids"].range == (0, 23)
    assert "position_ids" not in model.inputs
    assert model.dims["batch_size"] == 1 and model.dims["past_sequence_length"].max == 63
    assert model.shapes == [{"sequence_length": 1}]


def test_a_decoder_without_its_cache_is_refused(directory):
    write_onnx_config(directory)
    (directory / "decoder_model.onnx").write_bytes(b"x")
    with pytest.raises(InputError, match="takes no earlier positions") as raised:
        init(["."], Path("tvmake.yaml"), force=False)
    assert raised.value.remedy.startswith("export it with its cache: optimum-cli")
    (directory / "model.onnx").write_bytes((RESOURCES / "digits.onnx").read_bytes())
    with pytest.raises(InputError, match="has no input 'input_ids'"):
        init(["."], Path("tvmake.yaml"), force=False)
