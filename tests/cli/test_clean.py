"""``tvmake clean``: the files that it lists, deletes and keeps."""

from pathlib import Path

import pytest
import typer
import yaml
from filelock import FileLock
from typer.testing import CliRunner

from tvmake.cli.clean import clean
from tvmake.config.reading.load import load
from tvmake.errors import InputError, MachineError
from tvmake.plan.plan import Plan
from tvmake.storage.notes.job_records import record_job
from tvmake.storage.notes.own_directories import create_own_directory

CONFIG = {
    "models": {"digits": {"source": "digits.onnx"}, "old": {"source": "old.onnx"}},
    "targets": {"cpu": {"kind": "llvm", "mcpu": "native"}, "phone": {"tag": "qcom/adreno-opencl"}},
}
PACKAGES = ("mod.so", "mod.json", "package.tar")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Packages and logs of two models for two targets."""
    monkeypatch.chdir(tmp_path)
    write(CONFIG)
    for directory in ("results", "logs"):
        create_own_directory(directory)
    plan = Plan(load([Path("tvmake.yaml")]))
    for variant in plan.variants:
        for name in PACKAGES:
            put(f"results/{variant}/{name}", "x" * 100)
        put(f"results/{variant}/sources/devc.cc", "y" * 50)
        put(f"logs/{variant}/build.log", "z")
    for model in CONFIG["models"]:
        put(f"results/{model}/model.json", "m")
        put(f"{model}.onnx", "network")
    for file in (
        *(file for job in plan.run_jobs() for file in job.outputs),
        *plan.results_of("package.provenance.json"),
    ):
        put("results/best/a/local/choice.json" if file == "results/best" else file, "")
    return tmp_path


def put(path: str, text: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)


def write(config: dict) -> None:
    Path("tvmake.yaml").write_text(yaml.safe_dump(config))


def without(axis: str, name: str) -> None:
    write({**CONFIG, axis: {key: value for key, value in CONFIG[axis].items() if key != name}})


def run(*arguments: str):
    app = typer.Typer()
    app.command("clean")(clean)
    return CliRunner().invoke(app, list(arguments))


def files() -> set[str]:
    return {str(path) for path in Path().rglob("*") if path.is_file() and ".snakemake" not in path.parts}


def test_nothing_is_stale_while_the_config_asks_for_it(project: Path):
    before = files()
    done = run("--stale", "--yes")
    assert done.exit_code == 0 and "nothing is stale" in done.stdout
    assert files() == before


def test_a_removed_model_is_listed_with_sizes_and_stays_until_yes(project: Path):
    without("models", "old")
    before = files()
    done = run("--stale")
    assert "100 bytes  results/old/float32/cpu/mod.so" in done.stdout
    assert "50 bytes  results/old/float32/cpu/sources" in done.stdout
    assert "logs/old/float32/phone/build.log" in done.stdout
    assert "digits" not in done.stdout
    assert "13 stale, 703 bytes: --yes deletes them" in done.stdout
    assert files() == before


def test_yes_deletes_stale_files_and_the_directories_that_become_empty(project: Path):
    without("models", "old")
    before = files()
    assert run("--stale", "--yes").exit_code == 0
    assert files() == {path for path in before if "/old/" not in path}
    assert not Path("results/old").exists() and not Path("logs/old").exists()
    assert Path("old.onnx").is_file()
    assert "nothing is stale" in run("--stale").stdout


def test_a_removed_target_is_stale_for_every_model(project: Path):
    without("targets", "phone")
    run("--stale", "--yes")
    assert not [path for path in files() if "phone" in path and path != "tvmake.yaml"]
    assert Path("results/old/float32/cpu/package.tar").is_file()


def test_files_that_tvmake_does_not_make_are_counted_and_kept(project: Path):
    put("results/old/notes.txt", "mine")
    put("results/old/float32/cpu/package.tar.bak", "mine")
    put("logs/mine.log", "mine")
    without("models", "old")
    done = run("--stale", "--yes")
    assert "3 not made by tvmake: kept" in done.stdout
    assert Path("results/old/notes.txt").is_file() and Path("results/old/float32/cpu/package.tar.bak").is_file()


def test_records_and_sources_in_the_results_are_kept(project: Path):
    # Their paths look like those of a variant's files.
    for path in ("results/store/cpu/x/best.json", "results/nets/model.json"):
        put(path, "precious")
    models = {"digits": {"source": "digits.onnx"}, "kept": {"source": "results/nets/model.json", "format": "onnx"}}
    write({**CONFIG, "models": models, "tuning": {"store": "results/store"}})
    run("--stale", "--yes")
    assert Path("results/store/cpu/x/best.json").is_file() and Path("results/nets/model.json").is_file()
    assert not Path("results/old").exists()


def test_links_are_not_followed(project: Path):
    put("elsewhere/float32/cpu/package.tar", "mine")
    Path("results/gone").symlink_to(Path("elsewhere").absolute())
    run("--stale", "--yes")
    assert Path("elsewhere/float32/cpu/package.tar").is_file() and Path("results/gone").is_symlink()


def test_without_stale_everything_that_runs_have_made_is_meant(project: Path):
    put("results/digits/notes.txt", "mine")
    before = files()
    done = run()
    assert "results/digits/" in done.stdout and "logs/old/" in done.stdout
    assert "--yes deletes them" in done.stdout and "--stale lists only" in done.stdout
    assert files() == before
    run("--yes")
    assert files() == {"tvmake.yaml", "digits.onnx", "old.onnx", "results/digits/notes.txt"}


def test_results_among_the_projects_own_files_are_refused(project: Path):
    write({**CONFIG, "results": "."})
    assert isinstance(run("--stale").exception, InputError)


def test_nothing_is_deleted_while_a_run_is_at_work(project: Path):
    without("models", "old")
    before = files()
    Path(".snakemake").mkdir(exist_ok=True)
    with FileLock(".snakemake/tvmake.lock"):
        assert isinstance(run("--stale", "--yes").exception, MachineError)
    assert files() == before


# --- directories that tvmake did not create ---------------------------------------------------------------------------

SHAPED = ("digits/model.json", "digits/float32/cpu/mod.so", "old/model.json", "summary.json")
"""Somebody else's files in tvmake's directories."""


@pytest.fixture(params=["in the project", "whole path", "link"])
def foreign(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A results directory of a config that contains other files with names like tvmake's."""
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    results_path = Path("mine") if request.param == "in the project" else tmp_path / "elsewhere"
    for name in SHAPED:
        put(str(results_path / name), "precious")
    if request.param == "link":
        Path("mine").symlink_to(results_path)
        results_path = Path("mine")
    write({**CONFIG, "results": str(results_path)})
    return str(results_path)


def test_files_that_no_job_has_made_stay_whatever_they_are_called(foreign: str):
    create_own_directory(foreign)
    for arguments in (["--yes"], ["--stale", "--yes"]):
        done = run(*arguments)
        assert done.exit_code == 0 and "4 not made by tvmake: kept" in done.stdout
    assert all((Path(foreign) / name).read_text() == "precious" for name in SHAPED)


def test_among_foreign_files_those_that_a_job_has_made_are_deleted_unless_they_were_changed(foreign: str):
    made, changed = Path(foreign, "digits/signature.json"), Path(foreign, "old/signature.json")
    with record_job([], [made]):
        put(str(made), "{}")
    with record_job([], [changed]):
        put(str(changed), "{}")
    changed.write_text("mine")
    assert run("--yes").exit_code == 0
    assert not made.exists() and changed.read_text() == "mine"
    assert Path(foreign).is_dir() and all((Path(foreign) / name).is_file() for name in SHAPED)


def test_a_directory_that_replaced_tvmakes_own_is_foreign(project: Path):
    Path("results").rename("results-of-before")
    put("results/digits/model.json", "mine")
    run("--yes")
    assert Path("results/digits/model.json").read_text() == "mine"
