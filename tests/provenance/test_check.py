"""``tvmake verify``: digests, statement, component list; the first thing that does not fit is named."""

import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.provenance.examples import COMPONENTS, SOURCE, make_package, sign
from tvmake.artifact.manifest import Component
from tvmake.cli import run
from tvmake.errors import InputError
from tvmake.provenance.check import check_package, components_file
from tvmake.provenance.origin import origin_file
from tvmake.provenance.signature import signature_file


def test_an_intact_package_says_what_it_is(package: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["verify", str(package)]) == 0
    said = capsys.readouterr().out
    assert f"{package}: intact, sha256 " in said
    assert "m/float32/cpu, made with tvmake" in said
    assert f"source: onnx, m.onnx sha256 {SOURCE.files['m.onnx']}\n" in said
    assert "network: module.json " in said
    assert "component list: matches the package" in said
    assert "  not signed\n  not authenticated: digests detect damage, not the author" in said
    assert run(["verify", str(package), "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["package"], row["variant"], row["signed_by"]) == (str(package), "m/float32/cpu", None)
    assert row["source"]["files"] == SOURCE.files


def test_the_first_failure_is_one_line_and_exit_code_1(package: Path, capsys: pytest.CaptureFixture[str]):
    data = package.read_bytes()
    package.write_bytes(data.replace(b"weightsweights", b"weightsWEIGHTS", 1))
    assert run(["verify", str(package)]) == 1
    assert capsys.readouterr().err == (
        f"error: {package}: mod.params is altered: its sha256 differs from mod.json's\n"
        "  rebuild the package with `tvmake make`, or copy it again from its source\n"
    )


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
    node = copy
    for part in parents:
        node = node[int(part)] if isinstance(node, list) else node[part]
    if value is None:
        del node[int(last) if isinstance(node, list) else last]
    elif isinstance(node, list):
        node[int(last)] = value
    else:
        node[last] = value
    return copy


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("_type", "https://in-toto.io/Statement/v0.1", "not a statement of tvmake"),
        ("predicateType", "https://example.org/mine", "not a statement of tvmake"),
        ("predicate.runDetails.builder.id", "urn:somebody", "not a statement of tvmake"),
        ("predicate.runDetails", None, "not a statement of tvmake"),
        ("subject.0.digest.sha256", "0" * 64, "belongs to other files"),
        ("subject", [], "belongs to other files"),
        ("predicate.buildDefinition.externalParameters.precision", "float16", "other build options"),
        ("predicate.buildDefinition.resolvedDependencies.0.name", "best.json", "other tuning records"),
        ("predicate.buildDefinition.resolvedDependencies.1.digest.sha256", "1" * 64, "another network"),
        ("predicate.buildDefinition.resolvedDependencies.3.annotations.version", "9", "other programs and libraries"),
    ],
)
def test_a_statement_that_says_something_else_is_refused(
    tmp_path: Path, library: bytes, package: Path, path: str, value: Any, problem: str
):
    said = check_package(package).manifest.provenance
    other = make_package(
        tmp_path / "other" / "package.tar", library, source=None, provenance=changed(said, path, value)
    )
    with pytest.raises(InputError, match=problem):
        check_package(other)


def test_a_package_without_a_statement_is_refused(tmp_path: Path, library: bytes):
    with pytest.raises(InputError, match="has no provenance"):
        check_package(make_package(tmp_path / "p" / "package.tar", library, source=None, provenance={}))


def test_other_components_than_the_statement_names_are_refused(tmp_path: Path, library: bytes):
    other = [*COMPONENTS[:-1], Component(name="linker", version="clang 17")]
    with pytest.raises(InputError, match="other programs and libraries"):
        check_package(make_package(tmp_path / "p" / "package.tar", library, source=None, components=other))


def test_a_list_of_another_package_is_refused(tmp_path: Path, library: bytes, package: Path):
    other = make_package(tmp_path / "other" / "package.tar", library, weights=b"other")
    components_file(package).write_bytes(components_file(other).read_bytes())
    with pytest.raises(InputError, match="component list of another package"):
        check_package(package)


def test_an_edited_list_is_refused(package: Path):
    beside = components_file(package)
    beside.write_text(beside.read_text().replace("m.onnx", "n.onnx"))
    with pytest.raises(InputError, match=r"contradicts the package \(components\)"):
        check_package(package)


def test_a_list_that_another_version_made_needs_only_be_of_this_package(tmp_path: Path, library: bytes, package: Path):
    older = [Component(name="tvmake", version="0.0.1"), *COMPONENTS[1:]]
    said = changed(
        check_package(package).manifest.provenance,
        "predicate.buildDefinition.resolvedDependencies.3.annotations.version",
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
def test_what_is_not_a_list_is_refused(package: Path, text: str):
    components_file(package).write_text(text)
    with pytest.raises(InputError, match=r"is not a (CycloneDX )?component list|of another package"):
        check_package(package)


@pytest.mark.parametrize("beside", [origin_file, signature_file])
def test_a_pipe_instead_of_provenance_or_signature_is_refused_and_not_waited_for(
    package: Path, beside: Callable[[Path], Path], capsys: pytest.CaptureFixture[str]
):
    file = beside(package)
    file.unlink(missing_ok=True)
    os.mkfifo(file)
    assert run(["verify", str(package)]) == 1
    assert capsys.readouterr().err == f"error: {file}: cannot be read: it is a pipe, not a file\n  name a plain file\n"


def test_a_package_that_was_altered_is_to_be_copied_again_and_not_signed(package: Path, capsys):
    package.write_bytes(package.read_bytes()[:-2000])
    assert run(["verify", str(package)]) == 1
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith(f"error: {package}: ") and "copy it again from its source" in second
    assert run(["verify", str(package), "--key", "none.pub"]) == 1
    assert "create one with `ssh-keygen" in capsys.readouterr().err


def test_a_pipe_instead_of_a_list_counts_as_none(package: Path, capsys: pytest.CaptureFixture[str]):
    components_file(package).unlink()
    os.mkfifo(components_file(package))
    assert run(["verify", str(package)]) == 0
    assert "component list" not in capsys.readouterr().out


def test_a_package_without_a_list_is_fine(package: Path):
    components_file(package).unlink()
    assert not check_package(package).has_list


def test_a_package_copied_alone_names_its_network_and_says_that_its_source_is_not_said(
    package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    alone = tmp_path / "alone.tar"
    alone.write_bytes(package.read_bytes())
    assert run(["verify", str(alone)]) == 0
    said = capsys.readouterr().out
    assert "network: module.json " in said
    assert "source: unknown, alone.provenance.json is missing\n" in said


def test_provenance_of_another_package_is_refused(tmp_path: Path, library: bytes, package: Path):
    other = make_package(tmp_path / "other" / "package.tar", library, weights=b"other")
    origin_file(package).write_bytes(origin_file(other).read_bytes())
    with pytest.raises(InputError, match=r"package\.provenance\.json: is the provenance of another package"):
        check_package(package)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("predicate.buildDefinition.externalParameters.precision", "float16"),
        ("predicate.buildDefinition.resolvedDependencies.0.digest.sha256", "1" * 64),
        ("predicate.buildDefinition.resolvedDependencies.6.digest.sha256", "1" * 64),
        ("predicate.buildDefinition.resolvedDependencies.6", None),
        ("predicate.buildDefinition.internalParameters.source.files", {}),
        ("predicate.runDetails.builder.version.tvmake", "9"),
    ],
)
def test_provenance_that_says_something_else_than_the_package_or_itself_is_refused(
    package: Path, path: str, value: Any, capsys: pytest.CaptureFixture[str]
):
    beside = origin_file(package)
    beside.write_text(json.dumps(changed(json.loads(beside.read_text()), path, value)))
    assert run(["verify", str(package)]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"error: {beside}: contradicts the package or itself") and said.count("\n") == 2


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "[" * 100_000, '{"_type": "x"}', "\x00"], ids=lambda text: text[:5]
)
def test_what_is_not_a_provenance_is_refused(package: Path, text: str):
    origin_file(package).write_text(text)
    with pytest.raises(InputError, match="is not a provenance statement of a package"):
        check_package(package)


def test_provenance_without_a_source_is_refused(package: Path):
    beside = origin_file(package)
    said = changed(json.loads(beside.read_text()), "predicate.buildDefinition.internalParameters", None)
    beside.write_text(json.dumps(said))
    with pytest.raises(InputError, match="is not a provenance statement of a package"):
        check_package(package)


def test_a_list_and_provenance_that_name_different_sources_are_refused(package: Path, tmp_path: Path, library: bytes):
    same = make_package(tmp_path / "same" / "package.tar", library, source=SOURCE.model_copy(update={"files": {}}))
    assert same.read_bytes() == package.read_bytes()
    components_file(package).write_bytes(components_file(same).read_bytes())
    with pytest.raises(InputError, match=r"contradicts the package \(components\)"):
        check_package(package)
    origin_file(package).unlink()  # then nobody knows better
    assert check_package(package).has_list


@pytest.mark.parametrize("name", ["model", "module.json"])
def test_a_package_is_asked_whether_it_was_made_from_a_file(
    package: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "it").write_text(name)
    (tmp_path / "another").write_text("another")
    assert run(["verify", str(package), "--from", str(tmp_path / "it")]) == 0
    assert f"made from {tmp_path / 'it'}\n" in capsys.readouterr().out
    assert run(["verify", str(package), "--from", str(tmp_path / "another")]) == 1
    said = capsys.readouterr().err
    assert f"{package}: was built from m.onnx (sha256 9372c470eead…), not from {tmp_path / 'another'}" in said
    assert run(["verify", str(package), "--from", str(tmp_path / "absent")]) == 1
    origin_file(package).unlink()
    capsys.readouterr()
    assert run(["verify", str(package), "--from", str(tmp_path / "it")]) == (0 if name == "module.json" else 1)
    if name == "model":
        assert "package.provenance.json, which would list the model's files, is missing" in capsys.readouterr().err


def test_a_package_of_before_is_refused_in_one_line(tmp_path: Path, library: bytes, capsys: pytest.CaptureFixture[str]):
    package = make_package(tmp_path / "p" / "package.tar", library, source=None)
    with tarfile.open(package) as archive:
        files = {member.name: archive.extractfile(member).read() for member in archive}
    said = json.loads(files["mod.json"])
    del said["network"]
    files["mod.json"] = json.dumps({**said, "schema_version": 1, "source": {"source": "m.onnx"}}).encode()
    with tarfile.open(package, "w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    assert run(["verify", str(package)]) == 1
    assert capsys.readouterr().err == f"error: {package}: mod.json has schema version 1, expected 2 to 6\n" + (
        "  rebuild the package with `tvmake make`, or copy it again from its source\n"
    )


def test_signing_refuses_what_is_not_intact_and_replaces_an_old_signature(
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


@settings(max_examples=150)
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
