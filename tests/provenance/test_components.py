"""The component list: valid CycloneDX, complete, and a function of the package."""

import json
import os
import subprocess
import sys
from pathlib import Path

import cyclonedx.schema
import jsonschema
from referencing import Registry, Resource

from tests.provenance.examples import make_package
from tvmake.artifact.source import SourceRecord
from tvmake.provenance.check import components_file
from tvmake.provenance.origin import origin_file
from tvmake.storage.files import digest_file


def listed(package: Path) -> dict:
    return json.loads(components_file(package).read_text())


def test_the_list_is_valid_by_the_formats_own_schema(package: Path):
    schemas = Path(cyclonedx.schema.__file__).parent / "_res"
    loaded = {
        name: json.loads((schemas / f"{name}.SNAPSHOT.schema.json").read_text())
        for name in ("bom-1.6", "spdx", "jsf-0.82")
    }
    registry = Registry().with_resources((schema["$id"], Resource.from_contents(schema)) for schema in loaded.values())
    validator = jsonschema.Draft7Validator(loaded["bom-1.6"], registry=registry)
    assert [error.message for error in validator.iter_errors(listed(package))] == []


def test_everything_a_package_consists_of_is_listed(package: Path):
    found = {part["bom-ref"]: part for part in listed(package)["components"]}
    assert set(found) == {
        "file:mod.params",
        "file:mod.so",
        "network:module.json",
        "network:module.params",
        "network:signature.json",
        "program:apache-tvm",
        "program:linker",
        "program:tvmake",
        "source:m.onnx",
        "system:OpenCL driver",
        *(name for name in found if name.startswith("system:lib")),
    }
    assert any(name.startswith("system:libc.so") for name in found)
    assert found["source:m.onnx"]["hashes"][0]["alg"] == "SHA-256"
    assert {name: found[f"program:{name}"]["scope"] for name in ("apache-tvm", "linker", "tvmake")} == {
        "apache-tvm": "required",
        "linker": "excluded",
        "tvmake": "excluded",
    }


def test_the_list_names_the_package_and_neither_time_nor_chance(package: Path):
    metadata = listed(package)["metadata"]
    assert metadata["component"]["hashes"] == [{"alg": "SHA-256", "content": digest_file(package)}]
    assert "timestamp" not in metadata


def test_the_same_package_has_the_same_list_in_every_process(package: Path, tmp_path: Path, library: bytes):
    program = (
        "import sys; from pathlib import Path; from tvmake.stages.package.attest import attest; d = Path(sys.argv[1]);"
        "attest(d / 'package.tar', d / 'source.json', d / sys.argv[2], d / sys.argv[3])"
    )
    for seed in ("1", "2"):
        command = [sys.executable, "-c", program, str(package.parent), f"said-{seed}", f"list-{seed}"]
        subprocess.run(command, check=True, env={**os.environ, "PYTHONHASHSEED": seed})
        assert (package.parent / f"list-{seed}").read_bytes() == components_file(package).read_bytes()
        assert (package.parent / f"said-{seed}").read_bytes() == origin_file(package).read_bytes()


def test_tuned_packages_list_their_records(tmp_path: Path, library: bytes):
    package = make_package(tmp_path / "p" / "package.tar", library, records_sha256="ab" * 32)
    (records,) = [part for part in listed(package)["components"] if part["bom-ref"] == "records:best.json"]
    assert records["hashes"][0]["content"] == "ab" * 32


def test_a_network_without_files_is_listed_by_its_name(tmp_path: Path, library: bytes):
    source = SourceRecord(source="zoo:mobilenet_v2", format="zoo", files={}, notes={})
    package = make_package(tmp_path / "p" / "package.tar", library, source=source)
    assert "source:zoo:mobilenet_v2" in {part["bom-ref"] for part in listed(package)["components"]}
