"""Records of a finished job: inputs and outputs by content, removed as soon as the job runs again."""

import os
import shutil
from pathlib import Path

import pytest

from tvmake.errors import InputError
from tvmake.storage.notes.job_records import FORM, RECORDS, record_file, record_job, record_of
from tvmake.storage.notes.known_digests import digest_of, has_digest
from tvmake.storage.notes.state_file import write_state

LIST = os.listdir

OUTPUTS = [Path("results/module.json"), Path("results/workloads")]


@pytest.fixture(autouse=True)
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory where one job has run."""
    monkeypatch.chdir(tmp_path)
    Path("model.json").write_text("model")
    with record_job([Path("model.json")], OUTPUTS):
        make()


def make(content: str = "content") -> None:
    Path("results/workloads").mkdir(parents=True, exist_ok=True)
    Path("results/module.json").write_text(content)
    for name in ("a", "b"):
        Path(f"results/workloads/{name}.json").write_text(content)


def altered() -> list[str]:
    """What the record says of the outputs."""
    record = record_of(map(str, OUTPUTS))
    assert record is not None
    return [name for name, digest in record.outputs.items() if digest_of(Path(name)) != digest]


def flip(name: str) -> None:
    """Another content; size and times of change stay."""
    before = Path(name).stat()
    Path(name).write_bytes(Path(name).read_bytes()[::-1])
    os.utime(name, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_an_unaltered_result_counts_as_unaltered():
    assert altered() == []


def test_copies_and_touched_files_of_the_same_content_are_not_altered():
    os.utime("results/module.json", (5, 5))
    shutil.copytree("results/workloads", "copy")
    shutil.rmtree("results/workloads")
    Path("copy").rename("results/workloads")
    assert altered() == []


@pytest.mark.parametrize("name", ["results/module.json", "results/workloads/a.json"])
def test_one_other_byte_is_altered(name: str):
    flip(name)
    assert altered() == [str(next(path for path in OUTPUTS if name.startswith(str(path))))]


def test_a_directory_that_lacks_a_file_or_has_one_more_is_altered():
    Path("results/workloads/c.json").touch()
    assert altered() == ["results/workloads"]
    Path("results/workloads/c.json").unlink()
    assert altered() == []
    Path("results/workloads/a.json").unlink()
    assert altered() == ["results/workloads"]


def test_notes_of_programs_in_a_directory_do_not_count():
    Path("results/workloads/.snakemake_timestamp").touch()
    assert altered() == []


def test_a_job_that_fails_leaves_no_record():
    with pytest.raises(ZeroDivisionError), record_job([Path("model.json")], OUTPUTS):
        make("half")
        raise ZeroDivisionError
    assert record_of(map(str, OUTPUTS)) is None


def test_a_job_that_is_killed_leaves_no_record():
    child = os.fork()
    if child == 0:
        with record_job([Path("model.json")], OUTPUTS):
            make("half")
            os._exit(9)
    os.waitpid(child, 0)
    assert record_of(map(str, OUTPUTS)) is None


def test_an_input_that_changes_while_it_is_read_is_recorded_as_no_content():
    with record_job([Path("model.json")], OUTPUTS):
        Path("model.json").write_text("another model")
        make()
    record = record_of(map(str, OUTPUTS))
    assert record is not None and record.inputs == {"model.json": ""}


def test_without_the_record_of_one_output_nothing_is_known_of_the_job():
    record_file(str(OUTPUTS[1])).unlink()
    assert record_of(map(str, OUTPUTS)) is None


@pytest.mark.parametrize(
    "content", [None, [], 1, {"inputs": {}}, {"inputs": {}, "outputs": [1]}, {"inputs": 1, "outputs": 2}]
)
def test_a_record_of_another_structure_is_none(content: object):
    for file in RECORDS.iterdir():
        write_state(file, FORM, content)
    assert record_of(map(str, OUTPUTS)) is None


def test_a_result_that_was_altered_is_not_read():
    flip("results/module.json")
    after = Path("results/after.json")
    with pytest.raises(InputError, match="altered: its content differs"), record_job([OUTPUTS[0]], [after]):
        after.touch()
    assert not after.exists()
    make()
    with record_job([OUTPUTS[0]], [after]):
        after.touch()
    assert record_of([str(after)])


def test_an_input_that_is_not_a_file_is_refused_and_not_waited_for():
    os.mkfifo("pipe")
    with pytest.raises(InputError, match="cannot be read: it is a pipe, not a file"), record_job([Path("pipe")], []):
        pass


def test_what_is_not_a_file_has_no_content(tmp_path: Path):
    os.mkfifo("pipe")
    Path("circle").symlink_to("circle")
    assert not any(has_digest(Path(name), "") for name in ("pipe", "circle", "nothing", "/dev/zero"))
    assert has_digest(Path("model.json"), digest_of(Path("model.json")))


def test_writing_a_record_does_not_list_the_others(monkeypatch: pytest.MonkeyPatch):
    listed: list[str] = []

    def list_and_note(directory: Path) -> list[str]:
        listed.append(str(directory))
        return LIST(directory)

    monkeypatch.setattr(os, "listdir", list_and_note)
    with record_job([], [Path("result")]):
        Path("result").write_text("made")
    assert record_of(["result"]) is not None
    assert listed and str(RECORDS) not in listed


def test_an_input_that_is_linked_to_meanwhile_is_unchanged():
    with record_job([Path("model.json")], OUTPUTS):
        os.link("model.json", "link.json")
        make()
    record = record_of(map(str, OUTPUTS))
    assert record is not None and record.inputs["model.json"] == digest_of(Path("model.json"))
