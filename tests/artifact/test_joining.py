"""Packages joined to one: distinct tensors once, functions' files unchanged, no mix that no device runs."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from tests.artifact.test_package import manifest_of
from tvmake.artifact.functions import FunctionsManifest
from tvmake.artifact.joining import join
from tvmake.artifact.manifest import Parameter
from tvmake.artifact.package import LIBRARY, MANIFEST, WEIGHTS, pack
from tvmake.artifact.weights.file_format import stored_tensors
from tvmake.artifact.weights.tensors import load_params, save_params
from tvmake.errors import InputError
from tvmake.provenance.statement import check_functions_statement
from tvmake.storage.tar import extract, read_tar

TABLE = np.arange(4096, dtype="float32").reshape(64, 64)
BIAS = np.ones(3, "float32")


def package_of(
    directory: Path, name: str, parameters: Mapping[str, np.ndarray], target: Mapping[str, object] | None = None
) -> Path:
    """A package with these parameters."""
    built = directory / f"{name}-built"
    built.mkdir()
    save_params(dict(parameters), built / WEIGHTS)
    (built / LIBRARY).write_bytes(name.encode() * 10)
    manifest = manifest_of({file: (built / file).read_bytes() for file in (LIBRARY, WEIGHTS)}).model_copy(
        update={
            "parameters": [
                Parameter(name=name, shape=value.shape, dtype=str(value.dtype)) for name, value in parameters.items()
            ],
            "target": dict(target or {"kind": "llvm", "mtriple": "x86_64-linux-gnu"}),
        }
    )
    (built / MANIFEST).write_text(manifest.sealed().model_dump_json())
    package = directory / f"{name}.tar"
    pack({file: built / file for file in (LIBRARY, MANIFEST, WEIGHTS)}, package)
    return package


def contents(package: Path, directory: Path) -> dict[str, Path]:
    """The files of a package, extracted."""
    for member in read_tar(package, "package", "", nested=True):
        (directory / member.name).parent.mkdir(parents=True, exist_ok=True)
        extract(member, directory / member.name, package, "")
    return {path.relative_to(directory).as_posix(): path for path in directory.rglob("*") if path.is_file()}


@pytest.fixture
def pair(tmp_path: Path) -> dict[str, Path]:
    """Two packages over one table: under other names, in another order, and with a bias that only has the same name."""
    decode = package_of(tmp_path, "decode", {"table": TABLE, "bias": BIAS})
    encode = package_of(tmp_path, "encode", {"bias": 2 * BIAS, "embedding": TABLE, "column": TABLE.reshape(4096, 1)})
    return {"decode": decode, "encode": encode}


def test_distinct_tensors_are_stored_once_under_the_first_functions_names(pair: dict[str, Path], tmp_path: Path):
    manifest = join(pair, tmp_path / "all.tar", model="speech")
    assert [(function.name, function.weights) for function in manifest.functions] == [
        ("decode", ("table", "bias")),
        ("encode", ("bias2", "table", "column")),
    ]
    files = contents(tmp_path / "all.tar", tmp_path / "out")
    weights = {name: value.numpy() for name, value in load_params(files[WEIGHTS]).items()}
    assert list(weights) == ["table", "bias", "bias2", "column"]
    np.testing.assert_array_equal(weights["table"], TABLE)
    np.testing.assert_array_equal(weights["bias2"], 2 * BIAS)
    assert all(tensor.is_aligned for tensor in stored_tensors(files[WEIGHTS]) if tensor.size >= 4096)


def test_files_of_functions_keep_their_bytes(pair: dict[str, Path], tmp_path: Path):
    join(pair, tmp_path / "all.tar", model="speech")
    files = contents(tmp_path / "all.tar", tmp_path / "out")
    assert sorted(files) == sorted(
        [MANIFEST, WEIGHTS, *(f"{name}/{file}" for name in pair for file in (LIBRARY, MANIFEST))]
    )
    for name in pair:
        for file in (LIBRARY, MANIFEST):
            assert files[f"{name}/{file}"].read_bytes() == (tmp_path / f"{name}-built" / file).read_bytes()
    manifest = FunctionsManifest.model_validate_json(files[MANIFEST].read_bytes())
    assert manifest.is_intact
    assert set(manifest.files) == set(files) - {MANIFEST}
    assert {part["name"]: part["digest"] for part in manifest.provenance["subject"]} == {
        name: {"sha256": entry.sha256} for name, entry in manifest.files.items()
    }
    assert (manifest.model, manifest.precision, manifest.target_name) == ("speech", "float32", "cpu")
    check_functions_statement(manifest, "speech.tar")
    definition = manifest.provenance["predicate"]["buildDefinition"]
    definition["buildType"] = "urn:tvmake:build:v1"
    with pytest.raises(InputError, match="its provenance is that of another kind of package"):
        check_functions_statement(manifest, "speech.tar")


def test_the_same_packages_give_the_same_bytes(pair: dict[str, Path], tmp_path: Path):
    for name in ("first.tar", "second.tar"):
        join(pair, tmp_path / name, model="speech")
    assert (tmp_path / "first.tar").read_bytes() == (tmp_path / "second.tar").read_bytes()


def test_a_joined_package_is_not_joined_again(pair: dict[str, Path], tmp_path: Path):
    join(pair, tmp_path / "all.tar", model="speech")
    with pytest.raises(InputError, match="has functions already"):
        join({"both": tmp_path / "all.tar"}, tmp_path / "again.tar", model="speech")


@pytest.mark.parametrize("name", ["Decode", "2nd", "de-code", "../x", "", "x" * 65, "mod.params"])
def test_names_that_are_no_functions_are_refused(pair: dict[str, Path], tmp_path: Path, name: str):
    with pytest.raises(InputError, match="is not a name of a function"):
        join({name: pair["decode"]}, tmp_path / "all.tar", model="speech")


def test_more_functions_than_a_package_has_are_refused(pair: dict[str, Path], tmp_path: Path):
    with pytest.raises(InputError, match="17 functions, and a package has at most 16"):
        join({f"f{number}": pair["decode"] for number in range(17)}, tmp_path / "all.tar", model="speech")


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ({"kind": "cuda"}, "another device \\(cuda\\) than those of 'decode' \\(cpu\\)"),
        ({"kind": "llvm", "mtriple": "aarch64-linux-gnu"}, "another processor \\(aarch64\\)"),
    ],
)
def test_mixes_that_no_device_runs_are_refused(
    pair: dict[str, Path], tmp_path: Path, target: dict[str, object], problem: str
):
    other = package_of(tmp_path, "other", {"table": TABLE}, target)
    with pytest.raises(InputError, match=problem):
        join({"decode": pair["decode"], "other": other}, tmp_path / "all.tar", model="speech")


def test_weights_that_the_manifest_does_not_describe_are_refused(tmp_path: Path):
    package = package_of(tmp_path, "decode", {"table": TABLE})
    built = tmp_path / "decode-built"
    manifest = json.loads((built / MANIFEST).read_text())
    manifest["parameters"][0]["name"] = "other"
    changed = manifest_of({}).model_validate(manifest).sealed()
    (built / MANIFEST).write_text(changed.model_dump_json())
    pack({file: built / file for file in (LIBRARY, MANIFEST, WEIGHTS)}, package)
    with pytest.raises(InputError, match=r"mod\.params is not what mod\.json describes"):
        join({"decode": package}, tmp_path / "all.tar", model="speech")
