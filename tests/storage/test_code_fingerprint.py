"""A stage's code fingerprint: it changes with every module and library the stage can reach, and with nothing else."""

import ast
import re
import shutil
from pathlib import Path

import pytest

from tvmake.frontend.formats import FRONTENDS
from tvmake.stages.registry import stages
from tvmake.storage import code_fingerprint as fingerprints
from tvmake.storage.code_fingerprint import DISTRIBUTIONS, PACKAGE_ROOT, fingerprint, reachable, version

CACHED = (
    fingerprints.fingerprint,
    fingerprints.version,
    fingerprints._file,
    fingerprints._source,
    fingerprints._digest,
    fingerprints._imports,
)

STAGE_MODULES = {name: stage.module for name, stage in stages().items()}


def forget() -> None:
    for function in CACHED:
        function.cache_clear()


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A copy of the package that a test may edit."""
    root = tmp_path / "tvmake"
    shutil.copytree(PACKAGE_ROOT, root, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(fingerprints, "PACKAGE_ROOT", root)
    forget()
    yield root
    forget()


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A package of the test's own: ``write(name, text)`` adds a module."""
    root = tmp_path / "tvmake"
    root.mkdir()
    (root / "__init__.py").touch()
    monkeypatch.setattr(fingerprints, "PACKAGE_ROOT", root)
    forget()

    def write(name: str, text: str) -> None:
        file = root.joinpath(*name.split(".")).with_suffix(".py")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        forget()

    yield write
    forget()


def of_stages() -> dict[str, str]:
    forget()
    return {stage: fingerprint(module) for stage, module in STAGE_MODULES.items() if is_there(module)}


def is_there(module: str) -> bool:
    return fingerprints._file(module) is not None


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {stage for stage in before if before[stage] != after[stage]}


def test_every_module_a_stage_imports_is_found(small):
    small("a", "import numpy as np\nfrom tvmake.b import thing\nfrom tvmake import c\nimport tvmake.d as d, json\n")
    small("b", "def f():\n    from tvmake.late import (\n        one,\n        two,\n    )\n    import onnx\n")
    small("c", "from tvmake.sub import e\n")
    small("d", "from tvmake.a import again\n")
    small("late", "import torch.nn, tvm\n")
    small("sub.__init__", "")
    small("sub.e", "from PIL import Image\n")
    small("unreached", "import tflite\n")
    modules, libraries = reachable("tvmake.a")
    assert modules == [
        "tvmake",
        "tvmake.a",
        "tvmake.b",
        "tvmake.c",
        "tvmake.d",
        "tvmake.late",
        "tvmake.sub",
        "tvmake.sub.e",
    ]
    assert libraries == ["PIL", "numpy", "onnx", "torch", "tvm"]


def test_a_root_that_is_not_a_module_is_refused(small):
    with pytest.raises(ValueError, match=r"tvmake\.stages\.bild is not a module"):
        fingerprint("tvmake.stages.bild")


def test_an_import_of_a_module_that_does_not_exist_is_refused(small):
    small("a", "from tvmake.gone import thing\n")
    with pytest.raises(ValueError, match=r"tvmake\.gone is not a module"):
        fingerprint("tvmake.a")


def test_the_order_of_roots_does_not_matter(small):
    small("a", "")
    small("b", "x = 1\n")
    assert fingerprint("tvmake.a", "tvmake.b") == fingerprint("tvmake.b", "tvmake.a") != fingerprint("tvmake.a")


def test_a_renamed_module_is_another_program(small):
    small("a", "from tvmake.b import x\n")
    small("b", "x = 1\n")
    before = fingerprint("tvmake.b")
    small("c", "x = 1\n")
    assert fingerprint("tvmake.c") != before


@pytest.mark.parametrize(
    "module", ["codegen.link", "transform.precision", "artifact.package", "validate.numerics", "errors"]
)
def test_a_changed_module_changes_exactly_the_stages_that_reach_it(package, module):
    before = of_stages()
    expected = {stage for stage in before if f"tvmake.{module}" in reachable(STAGE_MODULES[stage])[0]}
    file = package.joinpath(*module.split(".")).with_suffix(".py")
    file.write_text(file.read_text() + "\nADDED = 1\n")
    assert changed(before, of_stages()) == expected
    assert expected


def test_the_command_line_reaches_no_stage(package):
    before = of_stages()
    file = package / "cli/make.py"
    file.write_text(file.read_text() + "\nADDED = 1\n")
    assert changed(before, of_stages()) == set()


def test_a_new_tvm_changes_every_stage_that_compiles_or_runs_and_pillow_does_not(package, monkeypatch):
    before = of_stages()
    monkeypatch.setattr(fingerprints, "version", lambda name: "9.9" if name == "apache-tvm" else version(name))
    assert {"import", "transform", "build"} <= changed(before, of_stages())
    monkeypatch.setattr(fingerprints, "version", lambda name: "9.9" if name == "pillow" else version(name))
    assert not {"transform", "build", "export", "deploy"} & changed(before, of_stages())


def test_a_library_that_is_missing_has_a_fingerprint_too():
    assert version("no-such-distribution-at-all") == "absent"


@pytest.mark.parametrize(
    ("kind", "other"), [("onnx", "torch.importer"), ("pt2", "onnx.prepare"), ("tflite", "torch.importer")]
)
def test_each_format_reaches_its_own_frontend_only(kind, other):
    assert is_there(f"tvmake.frontend.{other}")
    assert f"tvmake.frontend.{other}" not in reachable(*FRONTENDS[kind])[0]


def imported_by_syntax(module: str) -> set[str]:
    """What Python's own parser says a module imports, of the package and of the libraries that count."""
    found: set[str] = set()
    tree = ast.parse(fingerprints._source(module))
    # What only a type checker reads changes nothing.
    tree.body = [
        node for node in tree.body if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} uses a relative import"
            found.add(str(node.module))
            found |= {name for alias in node.names if is_there(name := f"{node.module}.{alias.name}")}
        elif isinstance(node, ast.Constant) and re.fullmatch(r"tvmake(\.\w+)+:\w+", str(node.value)):
            found.add(str(node.value).partition(":")[0])
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "python_command":
            words = [str(word.value) if isinstance(word, ast.Constant) else "" for word in node.args]
            if "-m" in words:  # what Python is told to run, and what that is told to run
                found |= {word for word in words[words.index("-m") + 1 :][:2] if word.startswith("tvmake.")}
    return {name for name in found if name.partition(".")[0] in {"tvmake", *DISTRIBUTIONS}}


def all_modules() -> list[str]:
    files = (path.relative_to(PACKAGE_ROOT.parent).with_suffix("") for path in Path(PACKAGE_ROOT).rglob("*.py"))
    return sorted(".".join(file.parts).removesuffix(".__init__") for file in files)


@pytest.mark.parametrize("module", all_modules())
def test_imports_are_found_as_python_finds_them(module):
    found = {name for name in fingerprints._imports(module) if name.partition(".")[0] in {"tvmake", *DISTRIBUTIONS}}
    assert found == imported_by_syntax(module)
