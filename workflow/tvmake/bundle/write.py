"""From a locked run to a bundle."""

from pathlib import Path, PurePosixPath

from tvmake import __version__
from tvmake.artifact import stage_json
from tvmake.artifact.manifest import FileEntry
from tvmake.bundle.contents import CONFIG, CONTENTS, INPUTS, LOCK, PACKAGES, RECORDS, Contents, config_text
from tvmake.errors import InputError
from tvmake.lock.document import Lock, read_lock
from tvmake.lock.origins import inputs, is_dataset
from tvmake.plan.plan import Plan
from tvmake.provenance.check import check_package, files_beside
from tvmake.records.record import TuningContext
from tvmake.records.sharing.exchange import export_records
from tvmake.records.store import open_store
from tvmake.storage.files import digest_file, write_text
from tvmake.storage.tar import write_tar
from tvmake.storage.temporary import temporary_directory


def write_bundle(plan: Plan, lock: Path, destination: Path, *, with_inputs: bool) -> Contents:
    """Write a bundle; the same run and the same records give the same bytes.

    Args:
        lock: the lock of the plan's run.
        with_inputs: include the models and the modules with passes, so that the other site can repeat the run.

    Raises:
        InputError: a package is missing, damaged or differs from the lock, or an input has changed or is outside the directory.
        MachineError: the bundle cannot be written, or the records cannot be read.
    """
    locked = read_lock(lock)
    files: dict[str, Path] = {LOCK: lock}
    for name, package in _packages(plan, locked):
        check_package(package)
        files[name] = package
        for file in files_beside(package):
            files[f"{PurePosixPath(name).parent}/{file.name}"] = file
    if with_inputs:
        files |= _inputs(plan, locked)
    with temporary_directory("tvmake-bundle-") as directory:
        files[CONFIG] = directory / CONFIG
        write_text(files[CONFIG], config_text(locked))
        if chosen := _workloads(locked):
            files[RECORDS] = directory / RECORDS
            export_records(open_store(_store(plan)), chosen, files[RECORDS])
        contents = Contents(
            written_by=f"tvmake {__version__}",
            files={
                member: FileEntry(sha256=digest_file(file), size=file.stat().st_size)
                for member, file in sorted(files.items())
            },
        )
        stage_json.save(contents, directory / CONTENTS)
        write_tar({**files, CONTENTS: directory / CONTENTS}, destination)
    return contents


def _packages(plan: Plan, locked: Lock) -> list[tuple[str, Path]]:
    members = []
    for entry in locked.packages:
        path = Path(plan.config.results) / entry.path
        if not path.is_file():
            raise InputError(str(path), "is in the lock, but is missing", "run `tvmake make`, then `tvmake lock`")
        if digest_file(path) != entry.sha256:
            raise InputError(str(path), "is not the package that the lock names", "run `tvmake lock` again")
        members.append((PACKAGES + entry.path, path))
    return members


def _inputs(plan: Plan, locked: Lock) -> dict[str, Path]:
    members: dict[str, Path] = {}
    for name, paths in inputs(plan).items():
        if is_dataset(name):
            continue  # not needed to build a package, and often large or confidential
        (path,) = paths
        parts = PurePosixPath(name).parts
        if PurePosixPath(name).is_absolute() or ".." in parts:
            raise InputError(
                name, "is outside the working directory", "move it into the directory, and adapt the config"
            )
        if not path.is_file() or digest_file(path) != locked.origins.inputs.get(name):
            raise InputError(name, "differs from the file in the lock", "run `tvmake make`, then `tvmake lock`")
        members[INPUTS + str(PurePosixPath(name))] = path
    return members


def _workloads(locked: Lock) -> list[tuple[TuningContext, str]]:
    """The kernels that the lock names, each with all that was measured of it."""
    workloads = {
        (records.context, kernel.workload)
        for records in locked.records.values()
        for kernel in records.kernels
        if kernel.record is not None
    }
    return sorted(workloads, key=lambda pair: (pair[0].digest, pair[1]))


def _store(plan: Plan) -> str | None:
    """The store that the run's records are in.

    Raises:
        InputError: its targets have different ones.
    """
    stores = {plan.context(variant).tuning.store for variant in plan.variants if plan.context(variant).is_tuned}
    if len(stores) > 1:
        named = ", ".join(str(store or "the user's") for store in sorted(stores, key=str))
        raise InputError(
            "tuning.store", f"a bundle has the records of one store, but the targets use several ({named})"
        )
    return next(iter(stores), None)
