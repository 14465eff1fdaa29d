"""Snakemake's records that it cannot read are removed; all others are kept."""

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from snakemake.persistence import MetadataRecord
from snakemake.persistence.file import FilePersistence

from tvmake.engine.up_to_date.metadata import ESSENTIAL, recorded_outputs, remove_damaged_records
from tvmake.errors import MachineError

RECORD = {
    "rule": "build", "input": ["a", "b"], "log": ["l"], "shellcmd": "true", "params": ["'1'"], "code": "true",
    "record_format_version": 6, "conda_env": None, "container_img_url": None, "software_stack_hash": "d41d", "job_hash": 12,
    "starttime": 1.5, "endtime": 2.5, "incomplete": False, "external_jobid": None, "input_checksums": {"a": "sha256:1"},
}  # fmt: skip


def state(directory: Path, *records: bytes, subdirectory: str = "metadata") -> list[Path]:
    files = [directory / subdirectory / "@long" / str(number) for number, _ in enumerate(records)]
    files[0].parent.mkdir(parents=True, exist_ok=True)
    for file, content in zip(files, records, strict=True):
        file.write_bytes(content)
    return files


def snakemake_reads(content: bytes) -> bool:
    """Whether Snakemake's persistence accepts a record."""
    try:
        record = json.loads(content.decode())
    except json.JSONDecodeError:
        return True
    except UnicodeDecodeError:
        return False
    try:
        if isinstance(record, dict):
            for digest in (record.get("input_checksums") or {}).values():
                hashlib.new(digest.partition(":")[0])
        return isinstance(record, dict) and (not record or bool(MetadataRecord.model_validate(record)))
    except Exception:  # noqa: BLE001  # whatever it is would end the run
        return False


def test_the_essential_values_are_snakemakes():
    assert set(ESSENTIAL) < MetadataRecord.model_fields.keys() == RECORD.keys()


def test_a_record_as_snakemake_writes_it_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    files = state(tmp_path, json.dumps(RECORD).encode())
    files += state(tmp_path, b"{}", json.dumps({"external_jobid": "7"}).encode(), subdirectory="incomplete")
    remove_damaged_records(tmp_path)
    assert all(file.is_file() for file in files) and capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "damage",
    [
        {"params": None}, {"code": None}, {"input": None}, {"record_format_version": 5}, {"record_format_version": None},
        {"input_checksums": {"a": "sha226:1"}}, {"input_checksums": {"a": None}}, {"input_checksums": {"a": "1"}},
    ],
    ids=str,
)  # fmt: skip
def test_a_record_that_snakemake_would_not_decide_by_is_removed(tmp_path: Path, damage: dict[str, object]):
    (file,) = state(tmp_path, json.dumps(RECORD | damage).encode())
    remove_damaged_records(tmp_path)
    assert not file.exists()


@pytest.mark.parametrize("missing", sorted({*ESSENTIAL} - {"record_format_version", "input_checksums"}))
def test_a_record_without_one_of_its_values_is_removed(tmp_path: Path, missing: str):
    (file,) = state(tmp_path, json.dumps({name: value for name, value in RECORD.items() if name != missing}).encode())
    remove_damaged_records(tmp_path)
    assert not file.exists()


@pytest.mark.parametrize("name", ["results/summary.json", "results/" + "long/" * 80 + "ä.json"])
def test_a_records_path_names_its_result(tmp_path: Path, name: str):
    persistence = FilePersistence(nolock=True, path=tmp_path / ".snakemake")
    persistence._write_record(name, MetadataRecord())
    assert recorded_outputs(tmp_path / ".snakemake") == {name}


@given(st.integers(0, len(json.dumps(RECORD)) * 8 - 1) | st.binary(max_size=40) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda below: st.lists(below) | st.dictionaries(st.sampled_from(sorted(RECORD)), below)
))  # fmt: skip
def test_snakemake_can_read_the_remaining_records(tmp_path: Path, damage: object):
    content = bytearray(json.dumps(RECORD).encode())
    if isinstance(damage, int) and not isinstance(damage, bool) and 0 <= damage < len(content) * 8:
        content[damage // 8] ^= 1 << damage % 8
    else:
        content = bytearray(damage if isinstance(damage, bytes) else json.dumps(damage).encode())
    (file,) = state(tmp_path, bytes(content))
    remove_damaged_records(tmp_path)
    assert not file.exists() or snakemake_reads(bytes(content))


@pytest.mark.parametrize("subdirectory", ["metadata", "incomplete"])
@pytest.mark.parametrize("other", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_a_record_that_is_not_a_file_is_refused_without_waiting(tmp_path: Path, subdirectory: str, other: Callable):
    (file,) = state(tmp_path, b"{}", subdirectory=subdirectory)
    file.unlink()
    other(file)
    with pytest.raises(
        MachineError, match=r"nothing that tvmake or Snakemake has put there\n  move it elsewhere, or `rm "
    ):
        remove_damaged_records(tmp_path)
    assert os.path.lexists(file)
