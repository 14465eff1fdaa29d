"""``tvmake verify``: digests, statement, component list; the first thing that does not fit is named."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.provenance.made import COMPONENTS, make_package
from tvmake.artifact.manifest import Component
from tvmake.cli import run
from tvmake.errors import InputError
from tvmake.provenance.check import check_package, components_file
from tvmake.provenance.signature import sign, signature_file


def test_an_intact_package_says_what_it_is(package: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["verify", str(package)]) == 0
    said = capsys.readouterr().out
    assert f"{package}: intact, sha256 " in said
    assert "m/float32/cpu, made with tvmake" in said
    assert "provenance: from m.onnx" in said
    assert "component list: as the package says" in said
    assert said.endswith("not signed\n")


def test_the_first_failure_is_one_line_and_exit_code_1(package: Path, capsys: pytest.CaptureFixture[str]):
    data = package.read_bytes()
    package.write_bytes(data.replace(b"weightsweights", b"weightsWEIGHTS", 1))
    assert run(["verify", str(package)]) == 1
    assert capsys.readouterr().err == (f"error: {package}: mod.params is altered: its sha256 differs from mod.json's\n")


def test_nothing_of_the_package_is_loaded(package: Path):
    program = "import sys; from tvmake.cli import run; code = run(['verify', sys.argv[1]]);" + (
        "assert not {'tvm', 'tvm_ffi', 'numpy', 'ctypes.util'} & set(sys.modules), sorted(sys.modules); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(package)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_libraries_for_lists_and_signatures_are_imported_by_those_who_need_them_only():
    program = (
        "import sys, tvmake.cli.app; print(sorted({'cyclonedx', 'cryptography', 'packageurl'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def changed(statement: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy of a statement with another value at a dotted path; None removes it."""
    copy = json.loads(json.dumps(statement))
    *parents, last = path.split(".")
    place = copy
    for part in parents:
        place = place[int(part)] if isinstance(place, list) else place[part]
    if value is None:
        del place[last]
    elif isinstance(place, list):
        place[int(last)] = value
    else:
        place[last] = value
    return copy


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("_type", "https://in-toto.io/Statement/v0.1", "no statement of tvmake's"),
        ("predicateType", "https://example.org/mine", "no statement of tvmake's"),
        ("predicate.runDetails.builder.id", "urn:somebody", "no statement of tvmake's"),
        ("predicate.runDetails", None, "no statement of tvmake's"),
        ("subject.0.digest.sha256", "0" * 64, "of other files"),
        ("subject", [], "of other files"),
        ("predicate.buildDefinition.externalParameters.precision", "float16", "other build options"),
        ("predicate.buildDefinition.resolvedDependencies.0.name", "best.json", "other tuning records"),
        ("predicate.buildDefinition.resolvedDependencies.1.digest.sha256", "1" * 64, "other model files"),
        ("predicate.buildDefinition.resolvedDependencies.2.annotations.version", "9", "other programs and libraries"),
    ],
)
def test_a_statement_that_says_something_else_is_refused(
    tmp_path: Path, library: bytes, package: Path, path: str, value: Any, problem: str
):
    said = check_package(package).manifest.provenance
    other = make_package(tmp_path / "other" / "package.tar", library, provenance=changed(said, path, value))
    with pytest.raises(InputError, match=problem):
        check_package(other)


def test_a_package_without_a_statement_is_refused(tmp_path: Path, library: bytes):
    with pytest.raises(InputError, match="has no provenance"):
        check_package(make_package(tmp_path / "p" / "package.tar", library, provenance={}))


def test_other_components_than_the_statement_names_are_refused(tmp_path: Path, library: bytes):
    other = [*COMPONENTS[:-1], Component(name="linker", version="clang 17")]
    with pytest.raises(InputError, match="other programs and libraries"):
        check_package(make_package(tmp_path / "p" / "package.tar", library, components=other))


def test_a_list_of_another_package_is_refused(tmp_path: Path, library: bytes, package: Path):
    other = make_package(tmp_path / "other" / "package.tar", library, weights=b"other")
    components_file(package).write_bytes(components_file(other).read_bytes())
    with pytest.raises(InputError, match="component list of another package"):
        check_package(package)


def test_an_edited_list_is_refused(package: Path):
    beside = components_file(package)
    beside.write_text(beside.read_text().replace("m.onnx", "n.onnx"))
    with pytest.raises(InputError, match=r"differs from what the package says of itself \(components\)"):
        check_package(package)


def test_a_list_that_another_version_made_needs_only_be_of_this_package(tmp_path: Path, library: bytes, package: Path):
    older = [Component(name="tvmake", version="0.0.1"), *COMPONENTS[1:]]
    said = changed(
        check_package(package).manifest.provenance,
        "predicate.buildDefinition.resolvedDependencies.2.annotations.version",
        "0.0.1",
    )
    other = make_package(tmp_path / "older" / "package.tar", library, components=older, provenance=said)
    beside = components_file(other)
    beside.write_text(beside.read_text().replace("m.onnx", "listed in another way"))
    assert check_package(other).has_list
    beside.write_bytes(components_file(package).read_bytes())
    with pytest.raises(InputError, match="component list of another package"):
        check_package(other)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000, '{"bomFormat": "CycloneDX"}'])
def test_what_is_no_list_is_refused(package: Path, text: str):
    components_file(package).write_text(text)
    with pytest.raises(InputError, match=r"is no component list|of another package"):
        check_package(package)


def test_a_package_without_a_list_is_fine(package: Path):
    components_file(package).unlink()
    assert not check_package(package).has_list


def test_signing_refuses_what_is_not_intact_and_takes_the_place_of_an_old_signature(
    package: Path, ssh_keys: Path, capsys: pytest.CaptureFixture[str]
):
    sign(package, ssh_keys / "other")
    assert run(["sign", str(package), "--key", str(ssh_keys / "own")]) == 0
    assert run(["verify", str(package), "--key", str(ssh_keys / "own.pub")]) == 0
    package.write_bytes(package.read_bytes()[:-20000])
    signature_file(package).unlink()
    capsys.readouterr()
    assert run(["sign", str(package), "--key", str(ssh_keys / "own")]) == 1
    assert "truncated" in capsys.readouterr().err
    assert not signature_file(package).exists()


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damage_anywhere_is_found_where_a_signature_is_asked_for(
    package: Path, ssh_keys: Path, tmp_path: Path, data: st.DataObject
):
    sign(package, ssh_keys / "own")
    copy = tmp_path / "copy.tar"
    signature_file(copy).write_bytes(signature_file(package).read_bytes())
    content = bytearray(package.read_bytes())
    if data.draw(st.booleans()):
        content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    else:
        del content[data.draw(st.integers(0, len(content) - 1)) :]
    copy.write_bytes(content)
    with pytest.raises(InputError):
        check_package(copy, ssh_keys / "own.pub")
