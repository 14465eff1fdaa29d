"""Bundles: fixed bytes, a whole run at the other site, and nothing placed of what does not fit."""

import gzip
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lock.made import BEST, WORKLOADS, fill, lock
from tests.provenance.examples import make_package
from tests.records.examples import CONTEXT, digests, files, record
from tvmake.bundle import contents as bundles
from tvmake.bundle import read as reading
from tvmake.bundle.read import read_bundle
from tvmake.bundle.write import write_bundle
from tvmake.cli import run as tvmake
from tvmake.config.reading.load import load
from tvmake.errors import InputError
from tvmake.lock.origins import portable_config
from tvmake.plan.plan import Plan
from tvmake.records.store import RecordStore
from tvmake.storage.files import digest_bytes

LOCK = Path("run.lock")
PACKAGE = "packages/digits/float32/cpu/package.tar"


@pytest.fixture
def bundle(run: Plan, tmp_path: Path) -> Path:
    """The run's bundle, models included."""
    write_bundle(run, LOCK, tmp_path / "out.tar", with_inputs=True)
    return tmp_path / "out.tar"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A directory at the other site."""
    (tmp_path / "site").mkdir()
    return tmp_path / "site"


def members(bundle: Path) -> dict[str, bytes]:
    with tarfile.open(bundle) as archive:
        return {member.name: archive.extractfile(member).read() for member in archive}


def rewritten(bundle: Path, changed: dict[str, bytes | None], *, honest: bool = True) -> Path:
    """A bundle with other members (None: without), bundle.json made to fit if ``honest``."""
    content = {name: data for name, data in {**members(bundle), **changed}.items() if data is not None}
    if honest and bundles.CONTENTS not in changed:
        listed = {
            name: {"sha256": digest_bytes(data), "size": len(data)}
            for name, data in content.items()
            if name != bundles.CONTENTS
        }
        said = {"schema_version": 1, "written_by": "somebody", "files": listed}
        content[bundles.CONTENTS] = json.dumps(said).encode()
    other = bundle.with_name("other.tar")
    with tarfile.open(other, "w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in sorted(content.items()):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return other


def test_the_same_run_gives_the_same_bytes(run: Plan, bundle: Path, tmp_path: Path):
    for file in Path("results").rglob("*"):
        os.utime(file, (1, 1))
    write_bundle(run, LOCK, tmp_path / "again.tar", with_inputs=True)
    assert (tmp_path / "again.tar").read_bytes() == bundle.read_bytes()


def test_a_bundle_holds_config_lock_records_packages_and_models(bundle: Path):
    assert list(members(bundle)) == [
        "bundle.json",
        "inputs/digits.onnx",
        "packages/digits/float32/cpu/package.cdx.json",
        "packages/digits/float32/cpu/package.provenance.json",
        PACKAGE,
        "packages/digits/float32/tuned/package.cdx.json",
        "packages/digits/float32/tuned/package.provenance.json",
        "packages/digits/float32/tuned/package.tar",
        "records.jsonl.gz",
        "run.lock",
        "tvmake.yaml",
    ]


def test_everything_arrives_unchanged_and_the_config_means_the_same(run: Plan, bundle: Path, site: Path):
    there = RecordStore(site / "records")
    done = read_bundle(bundle, site, there)
    assert (site / "run.lock").read_bytes() == LOCK.read_bytes()
    assert (site / "digits.onnx").read_bytes() == Path("digits.onnx").read_bytes()
    assert (site / PACKAGE).read_bytes() == Path("results/digits/float32/cpu/package.tar").read_bytes()
    assert portable_config(Plan(load([site / "tvmake.yaml"]))) == portable_config(run)
    assert BEST.digest in digests(there.load(CONTEXT, WORKLOADS[0]))
    assert len(done.placed) == 9


def test_importing_again_changes_nothing_and_records_are_merged(bundle: Path, site: Path):
    there = RecordStore(site / "records")
    fill(there, record(50, ms=0.1))
    read_bundle(bundle, site, there)
    assert len(there.load(CONTEXT, WORKLOADS[0])) == 3
    before = files(site)
    done = read_bundle(bundle, site, there)
    assert (done.placed, len(done.unchanged)) == ([], 9)
    assert files(site) == before


def test_files_of_the_user_are_not_overwritten_unless_asked_to(
    bundle: Path, site: Path, capsys: pytest.CaptureFixture[str]
):
    (site / "tvmake.yaml").write_text("mine")
    there = site / "records"
    command = ["bundle", "import", str(bundle), "--into", str(site), "--store", str(there)]
    assert tvmake(command) == 1
    assert "tvmake.yaml: exists and differs from the bundle's; nothing was written" in capsys.readouterr().err
    assert files(site) == {"tvmake.yaml": b"mine"}
    assert tvmake([*command, "--replace"]) == 0
    assert f"replaced {site / 'tvmake.yaml'}" in capsys.readouterr().out
    assert (site / "tvmake.yaml").read_text() != "mine"


def test_a_link_or_a_directory_in_a_files_place_is_refused_even_with_replace(bundle: Path, site: Path, tmp_path: Path):
    (tmp_path / "precious").write_text("precious")
    (site / "tvmake.yaml").symlink_to(tmp_path / "precious")
    with pytest.raises(InputError, match="is not a plain file"):
        read_bundle(bundle, site, RecordStore(site / "records"), replace=True)
    (site / "tvmake.yaml").unlink()
    (site / "packages").write_text("a file where a directory has to be")
    with pytest.raises(InputError, match="is not a plain file"):
        read_bundle(bundle, site, RecordStore(site / "records"), replace=True)
    assert (tmp_path / "precious").read_text() == "precious"


@pytest.mark.parametrize(
    "name",
    [
        "inputs/../../escape",
        "/etc/cron.d/job",
        "inputs//etc/passwd",
        "inputs/.git/hooks/pre-commit",
        "inputs/a/.ssh/authorized_keys",
        "inputs/tvmake.yaml",
        "inputs/packages/digits/float32/cpu/package.tar",
        "Snakefile",
        "results/digits/float32/cpu/package.tar",
    ],
)
def test_members_that_have_no_place_are_refused_and_nothing_is_placed(bundle: Path, site: Path, name: str):
    with pytest.raises(InputError, match=r"unsafe member|not a valid member|not the file that its lock names"):
        read_bundle(rewritten(bundle, {name: b"x"}), site, RecordStore(site / "records"))
    assert files(site) == {}
    assert list(site.iterdir()) == []


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.GNUTYPE_SPARSE])
def test_links_devices_and_sparse_files_are_refused(bundle: Path, site: Path, kind: bytes):
    info = tarfile.TarInfo("inputs/x")
    info.type, info.linkname = kind, "/etc/passwd"
    data = info.tobuf(tarfile.USTAR_FORMAT) + bundle.read_bytes()
    bundle.write_bytes(data)
    with pytest.raises(InputError, match="only plain files"):
        read_bundle(bundle, site, RecordStore(site / "records"))
    assert list(site.iterdir()) == []


def changed_lock(change: Callable[[dict], None]) -> bytes:
    values = json.loads(LOCK.read_bytes())
    change(values)
    return json.dumps(values).encode()


def test_what_does_not_fit_the_lock_is_refused(run: Plan, bundle: Path, site: Path, library: bytes, tmp_path: Path):
    other = make_package(tmp_path / "other" / "package.tar", library, ("digits", "float32", "cpu"), b"other")
    cases = [
        ({PACKAGE: other.read_bytes()}, "is not the package that its lock names"),
        ({PACKAGE: None}, "has no packages/digits/float32/cpu/package.tar, which its lock lists"),
        ({"inputs/digits.onnx": b"other model"}, "is not the file that its lock names"),
        ({"inputs/extra.py": b"print()"}, "is not the file that its lock names"),
        ({"run.lock": changed_lock(lambda values: values.update(schema_version=2))}, "schema version 2, expected 1"),
        ({"run.lock": LOCK.read_bytes()[:500]}, "is not a lock, or truncated"),
        ({"run.lock": None}, r"has no run\.lock"),
        ({"tvmake.yaml": None}, r"has no tvmake\.yaml"),
        ({"records.jsonl.gz": b"no gzip"}, "not a file of records, or is damaged"),
        ({PACKAGE.replace(".tar", ".cdx.json"): b"{}"}, "not a CycloneDX component list"),
        ({PACKAGE + ".sig": b"no signature"}, "is not a signature"),
        ({PACKAGE.replace(".tar", ".provenance.json"): b"{}"}, "is not a provenance"),
        ({"bundle.json": b'{"schema_version": 3}'}, "schema version 3, expected 1"),
        ({"bundle.json": b"[]"}, "not a JSON object"),
        ({"bundle.json": None}, r"does not begin with bundle\.json"),
    ]
    for changed, problem in cases:
        bad = rewritten(bundle, changed, honest="bundle.json" not in changed)
        with pytest.raises(InputError, match=problem):
            read_bundle(bad, site, RecordStore(site / "records"))
        assert list(site.iterdir()) == [], problem


def test_members_that_differ_from_the_list_are_refused(bundle: Path, site: Path):
    for changed, problem in (
        ({"tvmake.yaml": b"models: {}"}, "has 10 bytes, expected"),
        ({"inputs/more": b"x"}, "does not list"),
        ({"tvmake.yaml": None}, r"tvmake\.yaml is missing"),
        ({"tvmake.yaml": bytes(len(members(bundle)["tvmake.yaml"]))}, "is altered"),
    ):
        with pytest.raises(InputError, match=problem):
            read_bundle(rewritten(bundle, changed, honest=False), site, RecordStore(site / "records"))
    assert list(site.iterdir()) == []


def test_records_that_are_made_to_fill_a_disk_are_refused(bundle: Path, site: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reading, "FREE_BYTES", 1 << 20)
    bomb = gzip.compress(bytes(64 << 20))
    with pytest.raises(InputError, match="it would fill the disk"):
        read_bundle(rewritten(bundle, {"records.jsonl.gz": bomb}), site, RecordStore(site / "records"))
    assert list(site.iterdir()) == []


def test_a_run_that_changed_since_it_was_locked_is_not_bundled(run: Plan, tmp_path: Path, library: bytes):
    with Path("digits.onnx").open("ab") as file:
        file.write(b" ")
    with pytest.raises(InputError, match=r"digits\.onnx: differs from the file in the lock"):
        write_bundle(run, LOCK, tmp_path / "out.tar", with_inputs=True)
    write_bundle(run, LOCK, tmp_path / "out.tar", with_inputs=False)
    make_package(Path("results/digits/float32/cpu/package.tar"), library, ("digits", "float32", "cpu"), b"new")
    with pytest.raises(InputError, match="is not the package that the lock names"):
        write_bundle(run, LOCK, tmp_path / "out.tar", with_inputs=False)
    Path("results/digits/float32/cpu/package.tar").unlink()
    with pytest.raises(InputError, match="is in the lock, but is missing"):
        write_bundle(run, LOCK, tmp_path / "out.tar", with_inputs=False)


def test_signatures_travel_along(run: Plan, site: Path, tmp_path: Path, ssh_keys: Path):
    package = Path("results/digits/float32/cpu/package.tar")
    assert tvmake(["sign", str(package), "--key", str(ssh_keys / "own")]) == 0
    write_bundle(run, LOCK, tmp_path / "out.tar", with_inputs=False)
    read_bundle(tmp_path / "out.tar", site, RecordStore(site / "records"))
    assert tvmake(["verify", str(site / PACKAGE), "--key", str(ssh_keys / "own.pub")]) == 0


KILLED_AT_WRITE = """
import os, signal, sys
from pathlib import Path
from tvmake.cli import run

left, replace = [int(sys.argv[1])], Path.replace

def counted(self, target):
    left[0] -= 1
    if left[0] < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return replace(self, target)

Path.replace = counted
run(["bundle", "import", sys.argv[2], "--into", sys.argv[3], "--store", sys.argv[3] + "/records"])
"""


@pytest.mark.parametrize("writes", [0, 2, 5])
def test_an_import_that_is_killed_at_a_write_is_finished_by_the_next_one(bundle: Path, site: Path, writes: int):
    command = [sys.executable, "-c", KILLED_AT_WRITE, str(writes), str(bundle), str(site)]
    assert subprocess.run(command, check=False, capture_output=True).returncode == -signal.SIGKILL
    done = read_bundle(bundle, site, RecordStore(site / "records"))
    assert len(done.unchanged) + len(done.placed) == 9
    assert done.replaced == []
    assert [path for path in site.rglob("*") if path.name.startswith(".tvmake-")] == []
    whole = members(bundle)
    assert (site / "tvmake.yaml").read_bytes() == whole["tvmake.yaml"]


@settings(max_examples=25)
@given(st.data())
def test_a_damaged_bundle_is_refused_or_arrives_whole(bundle: Path, tmp_path: Path, data: st.DataObject):
    content = bytearray(bundle.read_bytes())
    for _ in range(data.draw(st.integers(0, 2))):
        content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content))) :]
    (tmp_path / "damaged.tar").write_bytes(content)
    site = tmp_path / f"site-{len(list(tmp_path.iterdir()))}"
    try:
        read_bundle(tmp_path / "damaged.tar", site, RecordStore(tmp_path / "there"))
    except InputError:
        assert not site.exists()
        return
    whole = members(bundle)
    assert files(site) == {
        name.removeprefix("inputs/"): whole[name] for name in whole if name not in ("bundle.json", "records.jsonl.gz")
    }


def test_a_file_of_another_kind_is_not_replaced(run: Plan, capsys: pytest.CaptureFixture[str]):
    Path("mine.tar").write_text("of another kind")
    assert tvmake(["bundle", "export", "mine.tar"]) == 1
    assert capsys.readouterr().err == "error: mine.tar: exists and is not a bundle\n  name another file\n"
    assert Path("mine.tar").read_text() == "of another kind"


def test_the_commands_say_what_they_did(
    run: Plan, site: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    Path("tvmake.yaml").write_text("models: {digits: {source: digits.onnx}}")
    monkeypatch.setenv("COLUMNS", "200")
    assert tvmake(["bundle", "export", "out.tar"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("out.tar: 2 packages, with tuning records, ")
    assert "the models are not included" in said.err
    command = ["bundle", "import", "out.tar", "--into", str(site), "--store", str(site / "records")]
    assert tvmake(command) == 0
    assert capsys.readouterr().out == (
        f"out.tar: 8 files written to {site}, 0 unchanged\nrecords: 2 new, 0 already known\n"
    )
    assert lock(run).read_bytes() == (site / "run.lock").read_bytes()
    assert tvmake(["bundle", "export", "out.tar", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["packages"], said["records"], said["inputs"]) == (2, True, False)
    assert said["bytes"] == Path("out.tar").stat().st_size
    assert tvmake([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (len(found["unchanged"]), found["placed"], found["records"]["known"]) == (8, [], 2)
