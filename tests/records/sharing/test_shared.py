"""The shared store: a directory, memory, and S3 (a moto server over HTTP)."""

import hashlib
import multiprocessing
import shutil
import subprocess
import sys
import uuid
from pathlib import Path

import fsspec
import pytest

from tests.records.examples import CONTEXT, CONV, DENSE, OTHER_CONTEXT, digests, files, record, verdict
from tests.workflow.project import ROOT
from tests.workflow.test_faults import small_disk
from tvmake.errors import InputError, MachineError
from tvmake.records.line import encode
from tvmake.records.sharing import shared
from tvmake.records.sharing.shared import pull, push
from tvmake.records.store import RecordStore
from tvmake.storage import shared_directory as remote
from tvmake.storage.shared_directory import RemoteDirectory, open_directory


def objects(url: str) -> list[str]:
    return sorted(open_directory(url).files(CONTEXT.generation))


def put(url: str, name: str, content: bytes) -> None:
    open_directory(url).write(name, content)


def segment_of(url: str, context=CONTEXT) -> str:
    (name,) = [name for name in objects(url) if context.digest in name]
    return name


def test_what_one_store_pushes_another_pulls(store, another_store, url):
    store.append(CONTEXT, CONV, [record(1), record(2, ms=None), verdict(record(1), True)])
    store.define(CONTEXT, CONV, {"name": "conv", "module": "text"})
    store.append(CONTEXT, DENSE, [record(3)])
    pushed = push(store, url, CONTEXT)
    assert (pushed.records, pushed.segments, pushed.refused) == (4, 2, [])
    pulled = pull(another_store, url, CONTEXT)
    assert (pulled.records, pulled.segments, pulled.refused) == (4, 2, [])
    for workload in (CONV, DENSE):
        assert digests(another_store.load(CONTEXT, workload)) == digests(store.load(CONTEXT, workload))
    assert another_store.load(CONTEXT, CONV)[0].verdict == verdict(record(1), True)
    assert another_store.description(CONTEXT, CONV) == {"name": "conv", "module": "text"}


def test_an_empty_shared_store_is_not_an_error(store, url):
    assert pull(store, url, CONTEXT).segments == 0
    assert push(store, url, CONTEXT).segments == 0
    assert objects(url) == []
    assert files(store.root) == {}


def test_doing_it_again_changes_nothing(store, another_store, url):
    store.append(CONTEXT, CONV, [record(1)])
    push(store, url, CONTEXT)
    pull(another_store, url, CONTEXT)
    there, here = objects(url), files(another_store.root)
    for one in (store, another_store):
        assert push(one, url, CONTEXT).segments == 0
        assert pull(one, url, CONTEXT).records == 0
    assert objects(url) == there
    assert files(another_store.root) == here


def test_segments_are_named_by_their_content_and_never_changed(store, url):
    for number in range(3):
        store.append(CONTEXT, CONV, [record(number)])
        before = dict(open_directory(url).read(objects(url)))
        push(store, url, CONTEXT)
        after = dict(open_directory(url).read(objects(url)))
        assert len(after) == number + 1
        assert before.items() <= after.items()
        assert all(hashlib.sha256(content).hexdigest() in name for name, content in after.items())


def test_only_what_is_lacking_is_pushed_even_by_a_store_that_knows_nothing(store, another_store, url):
    store.append(CONTEXT, CONV, [record(1), record(2)])
    push(store, url, CONTEXT)
    another_store.append(CONTEXT, CONV, [record(2), record(3)])
    assert push(another_store, url, CONTEXT).records == 1
    # A push brings nothing here.
    assert digests(another_store.load(CONTEXT, CONV)) == digests([record(2), record(3)])
    pull(another_store, url, CONTEXT)
    assert digests(another_store.load(CONTEXT, CONV)) == digests([record(2), record(3), record(1)])


def test_only_the_asked_workloads_and_context_are_exchanged(store, another_store, url):
    store.append(CONTEXT, CONV, [record(1)])
    store.append(CONTEXT, DENSE, [record(2)])
    store.append(OTHER_CONTEXT, CONV, [record(3)])
    push(store, url, CONTEXT, [CONV])
    push(store, url, OTHER_CONTEXT)
    pull(another_store, url, CONTEXT)
    assert another_store.workloads(CONTEXT) == [CONV]
    assert another_store.load(OTHER_CONTEXT, CONV) == []
    push(store, url, CONTEXT)
    pull(another_store, url, CONTEXT, [DENSE])
    assert another_store.workloads(CONTEXT) == [CONV, DENSE]


def test_a_segment_that_was_read_is_not_fetched_again(store, another_store, url, monkeypatch):
    store.append(CONTEXT, CONV, [record(1)])
    push(store, url, CONTEXT)
    pull(another_store, url, CONTEXT)
    fetched = []
    for kind in (remote.FileSystemDirectory, RemoteDirectory):
        real = kind.read
        monkeypatch.setattr(kind, "read", lambda self, names, real=real: fetched.extend(names) or real(self, names))
    store.append(CONTEXT, CONV, [record(2)])
    push(store, url, CONTEXT)
    pull(another_store, url, CONTEXT)
    assert len(fetched) == 1


def test_pruned_records_do_not_come_back_with_the_next_pull(store, another_store, url):
    store.append(CONTEXT, CONV, [record(1), record(2)])
    push(store, url, CONTEXT)
    pull(another_store, url, CONTEXT)
    another_store.journal(CONTEXT, CONV).rewrite(lambda line: line.digest == record(1).digest)
    pull(another_store, url, CONTEXT)
    assert digests(another_store.load(CONTEXT, CONV)) == digests([record(1)])


def test_records_that_were_deleted_here_can_be_had_again(store, another_store, url):
    store.append(CONTEXT, CONV, [record(1)])
    push(store, url, CONTEXT)
    store.journal(CONTEXT, CONV).path.unlink()
    pull(store, url, CONTEXT)
    assert digests(store.load(CONTEXT, CONV)) == digests([record(1)])


def test_segments_that_were_deleted_there_are_pushed_again(store, another_store, tmp_path):
    store.append(CONTEXT, CONV, [record(1)])
    push(store, str(tmp_path / "nfs"), CONTEXT)
    shutil.rmtree(tmp_path / "nfs")
    assert push(store, str(tmp_path / "nfs"), CONTEXT).records == 1
    assert pull(another_store, str(tmp_path / "nfs"), CONTEXT).records == 1


@pytest.mark.parametrize("damage", [lambda content: content[:-1], lambda content: b"", lambda content: content[::-1]])
def test_a_damaged_segment_is_left_out_and_named_each_time_and_the_others_count(store, another_store, url, damage):
    store.append(CONTEXT, CONV, [record(1)])
    push(store, url, CONTEXT)
    name = segment_of(url)
    content = dict(open_directory(url).read([name]))[name]
    put(url, name, damage(content))
    another_store.append(CONTEXT, CONV, [record(2)])
    push(another_store, url, CONTEXT)
    third = RecordStore(store.root.with_name("third"))
    for _ in range(2):
        pulled = pull(third, url, CONTEXT)
        assert pulled.refused == [(name, "differs from the sha256 in its name")]
        assert digests(third.load(CONTEXT, CONV)) == digests([record(2)])


def test_whoever_has_a_damaged_segments_records_puts_it_right(store, another_store, url):
    store.append(CONTEXT, CONV, [record(1)])
    push(store, url, CONTEXT)
    put(url, segment_of(url), b"damaged")
    for seen in store.root.rglob("shared/*.json"):
        seen.unlink()  # another machine with the same records
    assert push(store, url, CONTEXT).records == 1
    assert pull(another_store, url, CONTEXT).records == 1


def test_a_hostile_segment_with_the_right_name_brings_nothing_wrong(store, url):
    good, foreign = record(1), record(2)
    lines = [
        encode(CONTEXT.digest, None, CONTEXT),
        encode(CONTEXT.digest, CONV, good),
        encode(CONTEXT.digest, DENSE, foreign),
        encode(OTHER_CONTEXT.digest, None, OTHER_CONTEXT),
        encode(OTHER_CONTEXT.digest, CONV, foreign),
        encode(CONTEXT.digest, CONV, foreign).replace(b'"seed":2', b'"seed":3'),
    ]
    content = shared._pack(lines)
    put(url, f"{CONTEXT.generation}/{CONTEXT.digest}/{CONV}/{hashlib.sha256(content).hexdigest()}.jsonl.gz", content)
    pulled = pull(store, url, CONTEXT)
    assert digests(store.load(CONTEXT, CONV)) == digests([good])
    assert store.workloads(CONTEXT) == [CONV]
    assert store.load(OTHER_CONTEXT, CONV) == []
    assert len(pulled.refused) == 2
    assert len(list(store.root.glob("_quarantine/*.jsonl"))) == 1


def test_files_of_other_kinds_in_the_shared_store_are_left_alone(store, url):
    put(url, f"{CONTEXT.generation}/{CONTEXT.digest}/README.txt", b"hello")
    put(url, f"{CONTEXT.generation}/{CONTEXT.digest}/{CONV}/notes.jsonl.gz", b"hello")
    assert pull(store, url, CONTEXT).refused == []
    content = b"not gzip"
    put(url, f"{CONTEXT.generation}/{CONTEXT.digest}/{CONV}/{hashlib.sha256(content).hexdigest()}.jsonl.gz", content)
    assert [reason for _, reason in pull(store, url, CONTEXT).refused] == ["is not a file of records"]


def test_large_workloads_are_pushed_in_several_segments(store, another_store, url, monkeypatch):
    monkeypatch.setattr(shared, "SEGMENT_BYTES", 2000)
    store.append(CONTEXT, CONV, [record(number) for number in range(10)])
    assert push(store, url, CONTEXT).segments > 2
    pull(another_store, url, CONTEXT)
    assert len(another_store.load(CONTEXT, CONV)) == 10


def _push_some(root: Path, url: str, first: int) -> None:
    store = RecordStore(root)
    for number in range(first, first + 6):
        store.append(CONTEXT, CONV, [record(number), record(0)])
        push(store, url, CONTEXT)


@pytest.mark.parametrize("kind", ["directory", "s3"])
def test_two_writers_at_once_lose_nothing(kind, request, store, tmp_path):
    url = str(tmp_path / "nfs") if kind == "directory" else f"{request.getfixturevalue('s3')}/{uuid.uuid4().hex}"
    context = multiprocessing.get_context("fork" if kind == "directory" else "spawn")  # S3's client has threads
    writers = [
        context.Process(target=_push_some, args=(tmp_path / f"writer{index}", url, 1 + 100 * index)) for index in (0, 1)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    pull(store, url, CONTEXT)
    numbers = [0, *range(1, 7), *range(101, 107)]
    assert sorted(digests(store.load(CONTEXT, CONV))) == sorted(digests([record(number) for number in numbers]))


def test_a_file_system_behind_fsspec_gets_each_segment_by_a_rename(store, another_store, tmp_path):
    # fsspec's own view of a directory: not an object store
    directory = RemoteDirectory(f"local://{tmp_path}/there")
    directory._root.system = fsspec.filesystem("file", auto_mkdir=False)
    directory.write("a/b/name", b"content")
    assert directory.files("a") == {"a/b/name": 7}
    assert directory.files("missing") == {}
    assert dict(directory.read(["a/b/name", "a/b/gone"])) == {"a/b/name": b"content", "a/b/gone": None}
    assert [path.name for path in (tmp_path / "there/a/b").iterdir()] == ["name"]


def test_a_bucket_that_does_not_exist_is_one_clear_error(store, s3):
    store.append(CONTEXT, CONV, [record(1)])
    for work in (pull, push):
        with pytest.raises(MachineError, match="there is no bucket 'tvmake-nowhere'"):
            work(store, "s3://tvmake-nowhere/records", CONTEXT)


PULL = """
import sys
{before}
from pathlib import Path
from tests.records.examples import CONTEXT
from tvmake.errors import MachineError
from tvmake.records.sharing.shared import pull
from tvmake.records.store import RecordStore
try:
    pull(RecordStore(Path({root!r})), "s3://tvmake/x", CONTEXT)
except MachineError as error:
    print(error)
"""


def pulled_elsewhere(root: Path, before: str = "") -> tuple[str, str]:
    """What a process of its own says that pulls from a server that is not there."""
    environment = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y"}
    command = [sys.executable, "-c", PULL.format(before=before, root=str(root))]
    project = ROOT
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=True)
    return done.stdout, done.stderr


def test_a_server_that_cannot_be_reached_is_one_clear_error(tmp_path):
    out, err = pulled_elsewhere(tmp_path)
    assert out.startswith("s3://tvmake/x: the shared store cannot be reached (EndpointConnectionError")
    assert "check address, network and credentials" in out
    assert err == ""


def test_a_missing_package_is_named_with_the_command_that_installs_it(tmp_path):
    out, err = pulled_elsewhere(tmp_path, before="sys.modules['s3fs'] = None")
    assert out == "s3://tvmake/x: a package for s3:// is missing\n  pip install 'tvmake[s3]'\n"
    assert err == ""


def test_an_unknown_kind_of_address_is_a_users_mistake(store):
    with pytest.raises(InputError, match="not an address that fsspec knows"):
        pull(store, "carrier-pigeon://roof", CONTEXT)


def test_a_directory_on_a_full_disk_is_one_clear_error_and_the_rest_is_kept(store, another_store, tmp_path):
    with small_disk(tmp_path / "disk", 12):
        url = str(tmp_path / "disk" / "shared")
        store.append(CONTEXT, CONV, [record(1)])
        push(store, url, CONTEXT)
        for number in range(40):
            store.append(CONTEXT, f"{number:064x}", [record(number)])
        with pytest.raises(MachineError, match="no space left on the disk"):
            push(store, url, CONTEXT)
        pull(another_store, url, CONTEXT)
        assert digests(another_store.load(CONTEXT, CONV)) == digests([record(1)])


def test_a_shared_directory_that_is_a_file_is_one_clear_error(store, tmp_path):
    (tmp_path / "file").write_text("")
    store.append(CONTEXT, CONV, [record(1)])
    with pytest.raises(MachineError):
        push(store, str(tmp_path / "file"), CONTEXT)


def test_home_and_file_urls_are_directories(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert open_directory("~/records").root == tmp_path / "records"
    assert open_directory(f"file://{tmp_path}/records").root == tmp_path / "records"
