"""A key holds everything that can change the bytes, and nothing else."""

import hashlib
import os
import shutil
import sys
from pathlib import Path

import pytest
from pydantic import BaseModel

from tests.requirements import require
from tvmake.cache import compiler, identity, loaded
from tvmake.cache import key as keys
from tvmake.cache.compiler import compiler_identity
from tvmake.cache.errors import NotCacheableError
from tvmake.cache.key import Work, key, material
from tvmake.codegen.options import BuildOptions
from tvmake.config.requests.building import BuildRequest, ExportRequest
from tvmake.config.requests.tuning import ExtractRequest
from tvmake.config.target import TargetConfig
from tvmake.frontend.formats import FRONTENDS
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.trust import RUNS_CODE
from tvmake.stages.registry import stages
from tvmake.storage.code_fingerprint import changed_at, third_party_imports
from tvmake.transform.options import TransformOptions, TransformRequest, UserPass

NATIVE = TargetConfig(kind="llvm", mcpu="native")
REQUEST = BuildRequest(model="digits", precision="float32", target_name="cpu", target=NATIVE, cpu="a cpu")
CACHED = [name for name, stage in stages().items() if stage.is_cached]
PASS = UserPass(use="mine:factory")


@pytest.fixture
def files(tmp_path) -> Path:
    """Inputs, each with content of its own."""
    for name in ("module", "params", "signature", "best"):
        (tmp_path / name).write_text(f"content of {name}")
    return tmp_path


def build(files: Path, request: BuildRequest = REQUEST, **changes: Path) -> Work:
    inputs = {name: files / name for name in ("module", "params", "signature")}
    outputs = {name: files / "out" / name for name in ("lib", "manifest", "weights", "sources")}
    return work_of("build", request, {**inputs, **changes}, outputs)


def work_of(stage: str, request: BaseModel | None, inputs: dict[str, Path], outputs: dict[str, Path]) -> Work:
    described = stages()[stage]
    return Work(stage, described.recipe, described.roots(request), request, inputs, outputs)


def of(work: Work) -> str:
    return key(material(work))


# --- what is in it ----------------------------------------------------------------------------------------------------


def test_the_list_of_what_a_key_is_made_of(files):
    made = material(build(files, best=files / "best"))
    assert list(made) == [
        "version", "stage", "options", "code", "libraries", "outputs", "inputs",
        "machine", "environment", "backends", "compiler",
    ]  # fmt: skip
    assert made["outputs"] == ["lib", "manifest", "sources", "weights"]
    assert [role for role, _ in made["inputs"]] == ["module", "params", "signature", "best"]
    assert made["inputs"][0][1] == hashlib.sha256(b"content of module").hexdigest()
    assert made["machine"].keys() == {"cpu", "machine", "libc", "python"}
    assert made["compiler"].keys() == {"version", "driver", "linker", "probe", "files"}
    assert list(made["libraries"]) == [
        "apache-tvm", "apache-tvm-ffi", "ml-dtypes", "numpy", "packaging", "pydantic", "pydantic-core",
    ]  # fmt: skip
    assert made["options"] == REQUEST.model_dump(mode="json", exclude_defaults=True)


@pytest.mark.parametrize("kind", [kind for kind in FRONTENDS if kind not in RUNS_CODE])
def test_an_import_is_made_of_its_formats_libraries_and_its_files_with_their_names(files, kind):
    source = {
        "onnx": "m.onnx",
        "pt2": "m.pt2",
        "tflite": "m.tflite",
        "zoo": "zoo:mobilenet_v2",
        "stablehlo": "m.mlir",
        "transformers": "m/config.json",
    }[kind]
    if kind != "zoo":
        (files / source).parent.mkdir(exist_ok=True)
        (files / source).write_text(kind)
        source = str(files / source)
    options = ImportOptions(source=source.removesuffix("/config.json"))
    if kind == "transformers":
        (files / "m" / "model.safetensors").write_text("weights")
    made = material(work_of("import", options, {}, {"module": files / "out"}))
    library = {"pt2": "torch", "zoo": "torch", "stablehlo": "jax"}.get(kind, kind)
    assert library in made["libraries"]
    assert kind == "transformers" or "transformers" not in made["libraries"]
    weights = [str(files / "m" / "model.safetensors")] if kind == "transformers" else []
    assert [role for role, _ in made["inputs"]] == [
        f"model file {file}" for file in ([] if kind == "zoo" else [source, *weights])
    ]


def test_external_data_of_an_onnx_model_counts(files):
    (files / "m.onnx").write_text("model")
    (files / "m.onnx.data").write_text("weights")
    (files / "more.bin").write_text("more")
    options = ImportOptions(source=str(files / "m.onnx"), files=[str(files / "more.bin")])
    work = work_of("import", options, {}, {"module": files / "out"})
    seen = {of(work)}
    for name in ("m.onnx", "m.onnx.data", "more.bin"):
        (files / name).write_text("changed")
        seen.add(of(work))
    assert len(seen) == 4


def test_export_moves_bytes_only_so_that_the_machine_does_not_count(files):
    made = material(work_of("export", ExportRequest(), {"lib": files / "module"}, {"package": files / "out"}))
    assert not {"machine", "environment", "compiler"} & made.keys()


def test_recipes_are_for_stages_there_are_and_the_rest_is_not_cached(files):
    assert CACHED == ["import", "calibrate", "transform", "extract", "build", "export", "join"]
    for stage in set(stages()) - set(CACHED):
        with pytest.raises(NotCacheableError):
            material(work_of(stage, None, {}, {}))


@pytest.mark.parametrize("stage", CACHED)
def test_no_key_lacks_a_library_that_its_stage_can_import(stage):
    kinds = [FRONTENDS[kind] for kind in FRONTENDS if kind not in RUNS_CODE] if stage == "import" else [()]
    for modules in kinds:
        assert (
            set(third_party_imports(stages()[stage].module, *modules))
            <= identity.DISTRIBUTIONS.keys() | identity.SILENT
        )


# --- what changes it --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["module", "params", "signature", "best"])
def test_each_inputs_content_changes_the_key(files, name):
    work = build(files, best=files / "best")
    before = of(work)
    (files / name).write_text("other")
    assert of(work) != before


def test_inputs_that_change_roles_change_the_key(files):
    assert of(build(files)) != of(build(files, module=files / "params", params=files / "module"))
    assert of(build(files)) != of(build(files, best=files / "best"))


@pytest.mark.parametrize(
    "change",
    [
        {"model": "other"},
        {"precision": "float16"},
        {"target_name": "tuned"},
        {"target": TargetConfig(kind="llvm", mcpu="skylake")},
        {"target": TargetConfig(kind="llvm", mcpu="native", attributes={"num-cores": 2})},
        {"build": BuildOptions(opt_level=2)},
        {"build": BuildOptions(exec_mode="compiled")},
        {"build": BuildOptions(pass_config={"tirx.disable_vectorize": True})},
        {"build": BuildOptions(disabled_passes=["tirx.StorageRewrite"])},
        {"target": TargetConfig(kind="llvm", mcpu="native", link_options=["-s"])},
        {"build": BuildOptions(dump=["ll"])},
        {"require_coverage": 0.5},
        {"cpu": "another cpu"},
    ],
    ids=str,
)
def test_each_option_changes_the_key(files, change):
    assert of(build(files, REQUEST.model_copy(update=change))) != of(build(files))


def test_which_outputs_are_wanted_changes_the_key(files):
    work = work_of("export", ExportRequest(), {"lib": files / "module"}, {"package": files / "out"})
    assert of(work) != of(work_of("export", ExportRequest(), work.inputs, {**work.outputs, "more": files / "list"}))


@pytest.mark.parametrize(
    ("module", "name", "value"),
    [
        (keys, "KEY_VERSION", 2),
        (keys, "fingerprint", lambda *_: "other code"),
        (identity, "cpu_identity", lambda: "AMD EPYC 0123"),
        (identity.platform, "machine", lambda: "aarch64"),
        (identity.platform, "libc_ver", lambda: ("glibc", "2.99")),
        (identity.platform, "python_version", lambda: "3.99.1"),
        (identity, "library", lambda name: f"other {name}"),
        (identity, "backends", lambda: ("another=backend 1.0",)),
        (compiler, "compiler_identity", lambda _: {"version": "other"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_code_libraries_machine_and_compiler_change_the_key(files, monkeypatch, module, name, value):
    before = of(build(files))
    monkeypatch.setattr(module, name, value)
    assert of(build(files)) != before


@pytest.mark.parametrize(
    "name",
    ["OPENBLAS_CORETYPE", "OMP_NUM_THREADS", "MKL_CBWR", "NPY_DISABLE_CPU_FEATURES", "ATEN_CPU_CAPABILITY", "TVM_LIBRARY_PATH",
     "TORCH_LOGS", "LD_PRELOAD", "LD_LIBRARY_PATH", "LIBRARY_PATH", "COMPILER_PATH", "SOURCE_DATE_EPOCH"],
)  # fmt: skip
def test_variables_that_libraries_and_linkers_go_by_change_the_key(files, monkeypatch, name):
    monkeypatch.setattr(compiler, "compiler_identity", lambda _: {})  # they change what it does, too
    monkeypatch.delenv(name, raising=False)
    before = of(build(files))
    monkeypatch.setenv(name, "/other")
    assert of(build(files)) != before


def test_variables_count_unchanged_when_libraries_were_loaded_too(monkeypatch):
    # A step may be a fork of a process that loaded numpy under others.
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    monkeypatch.setattr(loaded, "ENVIRONMENT", dict(os.environ))
    same = identity.environment()
    assert same["OMP_NUM_THREADS"] == "4"
    changed = {"OMP_NUM_THREADS": "1", "LD_PRELOAD": "/lib.so", "HOME": "/else"}
    monkeypatch.setattr(loaded, "ENVIRONMENT", {**os.environ, **changed})
    assert identity.environment() == {**same, "OMP_NUM_THREADS when loaded": "1", "LD_PRELOAD when loaded": "/lib.so"}


# --- what does not ----------------------------------------------------------------------------------------------------


def test_places_times_and_the_rest_of_the_environment_do_not_change_the_key(files, tmp_path, monkeypatch):
    before = of(build(files))
    moved = tmp_path / "another checkout"
    moved.mkdir()
    for name in ("module", "params", "signature"):
        shutil.copy(files / name, moved / name)
        os.utime(moved / name, (0, 0))
    for name in (
        "HOME",
        "USER",
        "TMPDIR",
        "TVM_BIND_THREADS",
        "TVM_TRACKER_HOST",
        "TVM_TRACKER_PORT",
        "TVMAKE_CACHE",
        "TVMAKE_HOME",
        "COLUMNS",
    ):
        monkeypatch.setenv(name, str(moved))
    monkeypatch.chdir(moved)
    assert of(build(moved)) == before


# --- what has none ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stage", "request_", "why"),
    [
        ("import", ImportOptions(source="mine:net"), "runs the model's own code"),
        ("import", ImportOptions(source="m.pt2", trusted=True), "runs the model's own code"),
        ("transform", TransformRequest(transform=TransformOptions(passes=[PASS])), "code of yours"),
        ("extract", ExtractRequest(target_name="cpu", target=NATIVE, passes=[PASS]), "code of yours"),
        ("build", REQUEST.model_copy(update={"passes": [PASS]}), "code of yours"),
        ("build", REQUEST.model_copy(update={"target": TargetConfig(kind="cuda", arch="sm_80")}), "for cuda"),
        ("extract", ExtractRequest(target_name="gpu", target=TargetConfig(kind="cuda")), "for cuda"),
        (
            "build",
            REQUEST.model_copy(update={"target": TargetConfig(kind="c")}),
            "for c the result depends on other compilers",
        ),
        ("build", REQUEST.model_copy(update={"target": TargetConfig(kind="metal")}), "for metal"),
    ],
    ids=str,
)
def test_what_may_read_more_than_its_inputs_has_no_key(files, stage, request_, why):
    with pytest.raises(NotCacheableError, match=why):
        material(work_of(stage, request_, {}, {"out": files / "out"}))


def test_code_that_was_edited_while_it_ran_makes_no_key(files, monkeypatch):
    # What runs is what was loaded; the digest would be that of what lies there now.
    monkeypatch.setattr(loaded, "AT", changed_at("tvmake.stages.package.build") - 1)
    with pytest.raises(NotCacheableError, match="tvmake's own code was changed"):
        of(build(files))


def test_a_stage_that_may_use_an_unknown_library_has_no_key():
    with pytest.raises(NotCacheableError, match="no_such_library"):
        identity.libraries(["numpy", "no_such_library"])


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A library as pip installs one."""

    def install(record: str | None = "made_up.py,sha256=abc,6\nmade_up-1.dist-info/METADATA,sha256=x,9\n") -> Path:
        identity.library.cache_clear()
        info = tmp_path / "site" / "made_up-1.dist-info"
        info.mkdir(parents=True, exist_ok=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: made-up\nVersion: 1\n")
        (info.parent / "made_up.py").write_text("x = 1\n")
        (info / "RECORD").unlink(missing_ok=True)
        if record is not None:
            (info / "RECORD").write_text(record)
        return info.parent

    monkeypatch.syspath_prepend(tmp_path / "site")
    yield install
    identity.library.cache_clear()


def test_a_library_is_what_its_wheel_was(installed):
    installed()
    first = identity.library("made-up")
    # Byte code, scripts and the installer's notes are this environment's own.
    installed(
        "made_up.py,sha256=abc,6\n__pycache__/made_up.cpython-311.pyc,,\n../../bin/made-up,sha256=q,7\n"
        "made_up-1.dist-info/INSTALLER,sha256=z,4\n"
    )
    assert identity.library("made-up") == first
    installed("made_up.py,sha256=abd,6\n")
    assert identity.library("made-up") != first


def test_a_library_that_somebody_edited_or_that_pip_knows_no_digests_of_has_no_identity(installed, monkeypatch):
    directory = installed()
    (directory / "made_up.py").write_text("x = 1  # patched\n")
    with pytest.raises(NotCacheableError, match="was changed since it was installed"):
        identity.library("made-up")
    installed("made_up.py,sha256=abc,6\nmade_up-1.dist-info/RECORD,,\n")
    monkeypatch.setattr(loaded, "AT", loaded.AT - 3600)
    with pytest.raises(NotCacheableError, match="was installed while this ran"):
        identity.library("made-up")
    for record in (None, "made_up.py,,\n"):
        installed(record)
        with pytest.raises(NotCacheableError, match="was not installed from a wheel"):
            identity.library("made-up")
    assert identity.library("not-there-at-all") == "absent"


def test_a_library_that_hides_behind_another_one_has_no_identity(tmp_path, monkeypatch):
    (tmp_path / "tflite.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "tflite", raising=False)
    identity._check_origin.cache_clear()
    with pytest.raises(NotCacheableError, match="tflite comes from"):
        identity.libraries(["tflite"])
    identity._check_origin.cache_clear()


# --- the compiler -----------------------------------------------------------------------------------------------------


@pytest.fixture
def driver(tmp_path):
    """g++ behind scripts: ``write(name, first)`` makes one that does ``first`` before."""
    compiler_identity.cache_clear()

    def write(name: str, first: str = "", options: str = "") -> str:
        script = tmp_path / name
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(f'#!/bin/sh\n{first}\nexec g++ {options} "$@"\n')
        script.chmod(0o755)
        return str(script)

    yield write
    compiler_identity.cache_clear()


def test_the_same_compiler_at_another_place_is_the_same(driver):
    assert compiler_identity(driver("one/cc")) == compiler_identity(driver("two/cc"))


def test_another_driver_is_another_compiler_even_if_it_says_and_makes_the_same(driver):
    assert compiler_identity(driver("one/cc")) != compiler_identity(driver("two/cc", first=": # harmless"))


def test_what_a_driver_makes_and_links_with_is_part_of_it(driver, tmp_path, monkeypatch):
    plain = compiler_identity(driver("one/cc"))
    without = compiler_identity(driver("two/cc", options="-nostartfiles"))
    assert plain["files"] != without["files"]
    hashed = compiler_identity(driver("three/cc", options="-Wl,--hash-style=sysv"))
    assert plain["probe"] != hashed["probe"]
    assert plain["files"] == hashed["files"]


@pytest.mark.parametrize("body", ["exit 1", "sleep 0; echo nothing; exit 0", "kill -9 $$"])
def test_a_driver_that_does_not_work_has_no_identity(driver, body):
    with pytest.raises(NotCacheableError):
        compiler_identity(driver("one/cc", first=body))


def test_zig_is_what_its_version_says(tmp_path, monkeypatch):
    from tvmake.native.zig import zig_command
    from tvmake.targets.toolchain import zig_driver

    require(zig_command(), "zig: pip install ziglang")
    monkeypatch.setenv("TVMAKE_HOME", str(tmp_path))
    known = compiler_identity(zig_driver("aarch64-linux-gnu", "2.28", "here"))
    assert known.keys() == {"zig", "target"}
    assert known["target"] == "zig-aarch64-linux-gnu.2.28"
    assert known != compiler_identity(zig_driver("aarch64-linux-gnu", "2.31", "here"))


def test_looking_for_a_key_loads_neither_tvm_nor_torch(files):
    # A hit must not pay for them, and torch has to come before TVM where an import needs both.
    import subprocess

    script = (
        "import sys\nfrom pathlib import Path\nfrom tests.cache.test_key import build, of\n"
        f"of(build(Path({str(files)!r})))\nassert not {{'tvm', 'torch'}} & sys.modules.keys()\n"
    )
    root = Path(__file__).resolve().parents[2]
    subprocess.run([sys.executable, "-c", script], cwd=root, check=True)
