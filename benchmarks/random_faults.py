"""Nothing depends on luck: rounds of random faults, the rerun command, and a look at everything that is left.

    python benchmarks/random_faults.py [--rounds 100] [--seed 0] [--faults kill-job full-disk …]

A small network is made once, as it is and tuned a little, and so is the same network with other weights. Each round starts
from the finished project with some of its results removed, and in half of the rounds with the other weights. One or two
faults happen while ``tvmake make`` is at work; then the same command is given again, as the documentation says, until it
succeeds:

- SIGKILL of ``tvmake make``, of one of its processes, or of all of them at once; SIGTERM;
- a full disk; it has room again before the command is given again;
- a second ``tvmake make`` in the same directory, and one in another directory with the same records and the same cache;
- times of sources, results and Snakemake's notes moved by minutes, to the past and to the future;
- files that other processes see late (tests/workflow/late_names.c);
- a result removed, before or meanwhile; a result of an unfinished job cut short.

Checked then: files whose bytes are fixed by the inputs are those of the undisturbed project; every record that was there
is there; in rounds that measured more, what was built is what an empty directory makes of the same records; nothing is
left to do; ``tvmake records verify`` and ``tvmake cache verify`` find nothing; no temporary file and no process is left.
Exits with 1 when anything is otherwise. Mounting small disks takes root. Drained nodes are a matter of the Slurm tests.
"""

import argparse
import difflib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import onnx
import yaml
from comparing import ROOT, environment, machine
from killing import MARK, half_written, leftovers, missing, orphans, processes, record_lines

sys.path.insert(0, str(ROOT))
from tests.workflow import preloaded  # beside the package, not in it

TUNING = {
    "trials_per_kernel": 4,
    "passes": 1,
    "batch": 2,
    "population": 16,
    "cost_model": "random",
    "measure": {"repeat": 1, "min_repeat_ms": 0},
}

MEASURED = ("receipt.json", "numerics.json", "latency.json", "summary.json", "summary.csv", "index.html")
"""Results that hold times of their run."""

STAGES: dict[str, tuple[str, ...]] = {
    "import": ("digits/model.*", "digits/source.json", "digits/signature.json"),
    "transform": ("digits/float32/module.*", "digits/float32/signature.json"),
    "tune": ("tuning",),
    "pick_best": ("digits/float32/tuned/best.json",),
    "build": ("digits/float32/*/mod.*",),
    "export": ("digits/float32/*/package.*",),
    "validate": ("digits/float32/*/numerics.json",),
    "report": ("summary.json",),
}
"""What is removed at the start of a round: a stage's results and all that come after it."""

ATTEMPTS = 4
"""Times that the command is given in a round without a fault going on; once is the rule."""

LATE_S = "1.5"
"""How late files are seen."""

MORE_TRIALS = 0.2
"""The part of rounds that measure more than the undisturbed project."""

LIMIT_S = 240.0


def changed_weights(source: Path, destination: Path) -> None:
    """The same network with one weight changed: the same kernels, another result."""
    model = onnx.load(source)
    tensor = model.graph.initializer[0]
    values = onnx.numpy_helper.to_array(tensor).astype(np.float32).copy()
    values.flat[0] += 0.5
    tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))
    onnx.save(model, destination)


class Project:
    """A directory with the network, its records and cache beside it."""

    def __init__(self, place: Path, name: str = "project"):
        self.place, self.directory, self.home = place, place / name, place / "home"
        self.results = self.directory / "results"
        self.mark = uuid.uuid4().hex
        self.extra: dict[str, str] = {}

    def create(self, weights: Path, more_trials: int = 0) -> None:
        """Write sources and config."""
        self.directory.mkdir(parents=True)
        shutil.copy(weights, self.directory / "digits.onnx")
        shutil.copy(ROOT / "resources" / "digits-test.npz", self.directory)
        self.configure(more_trials)

    def configure(self, more_trials: int) -> None:
        """Write the config."""
        native = {"kind": "llvm", "mcpu": "native"}
        trials = TUNING["trials_per_kernel"] + more_trials  # type: ignore[operator]
        config = {
            "models": {
                "digits": {
                    "source": "digits.onnx",
                    "dataset": {"path": "digits-test.npz", "limit": 16, "preprocess": {"scale": 0.0625}},
                }
            },
            "precisions": ["float32"],
            "targets": {"cpu": native, "tuned": {**native, "tuning": {**TUNING, "trials_per_kernel": trials}}},
            "benchmark": {"repeat": 3, "warmup": 1},
            "cache": "../cache",
        }
        (self.directory / "tvmake.yaml").write_text(yaml.safe_dump(config))

    def environ(self) -> dict[str, str]:
        """What its commands run in; ``self.extra`` is for disturbed ones."""
        temporary = self.place / "tmp"
        temporary.mkdir(exist_ok=True)
        return environment(
            TVMAKE_HOME=str(self.home), TMPDIR=str(temporary), COLUMNS="200", **{MARK: self.mark}, **self.extra
        )

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """``tvmake make`` in a session of its own."""
        log = self.place / f"{self.directory.name}.log"
        with log.open("a") as said:
            return subprocess.Popen(
                ["tvmake", "make", *arguments],
                cwd=self.directory,
                env=self.environ(),
                stdout=said,
                stderr=said,
                text=True,
                start_new_session=True,
            )

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the directory."""
        return subprocess.run(
            command,
            cwd=self.directory,
            env=self.environ(),
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )

    def make(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """``tvmake make``, from a process that has loaded Snakemake; what it says goes to the log as well."""
        return self.command("make", *arguments)

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Another command of tvmake's, likewise."""
        done = preloaded.run([*arguments], self.directory, self.environ())
        with (self.place / f"{self.directory.name}.log").open("a") as said:
            said.write(done.stderr)
        return done

    def last_words(self) -> str:
        """The end of what its runs printed."""
        return (self.place / f"{self.directory.name}.log").read_text(errors="replace")[-1500:]

    def hermetic(self) -> dict[str, bytes]:
        """The results whose bytes the inputs fix."""
        found = {}
        for path in sorted(self.results.rglob("*")):
            name = str(path.relative_to(self.results))
            hidden = any(part.startswith(".") for part in path.parts[len(self.results.parts) :])
            if path.is_file() and path.name not in MEASURED and not hidden and not name.startswith("tuning/"):
                found[name] = path.read_bytes()
        return found


@dataclass
class Round:
    """One round: what happened, and what was found."""

    number: int
    faults: list[str]
    removed_from: str
    new_weights: bool
    more_trials: int
    attempts: int = 0
    told: list[str] = field(default_factory=list)
    """What the disturbed run ended with."""
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0


class Disturbed:
    """A project at work, and what a fault needs to know of it."""

    def __init__(self, project: Project, rng: random.Random, library: Path, longest_s: float):
        self.project, self.rng, self.library, self.longest_s = project, rng, library, longest_s
        self.arguments: list[str] = []
        self.after: list[Callable[[], None]] = []
        """Done before the command is given again."""
        self.others: list[tuple[Project, subprocess.Popen[str]]] = []
        self.notes: list[str] = []
        self.problems: list[str] = []

    def at_some_time(self, run: subprocess.Popen[str]) -> bool:
        """Wait a random while; whether the run is still on."""
        until = time.monotonic() + self.rng.uniform(0.8, self.longest_s)
        while time.monotonic() < until and run.poll() is None:
            time.sleep(0.02)
        return run.poll() is None

    def files(self, *roots: Path) -> list[Path]:
        """Files below, in an order that the seed fixes."""
        return sorted(
            path
            for root in roots
            for path in root.rglob("*")
            if path.is_file() and not path.name.startswith(".tvmake-")
        )


Fault = Callable[[Disturbed, subprocess.Popen[str]], None]


def kill_controller(at: Disturbed, run: subprocess.Popen[str]) -> None:
    """SIGKILL of ``tvmake make`` alone."""
    if at.at_some_time(run):
        run.kill()


def kill_job(at: Disturbed, run: subprocess.Popen[str]) -> None:
    """SIGKILL of one of the processes that it started."""
    if at.at_some_time(run) and (pids := sorted(set(processes(at.project.mark)) - {run.pid})):
        with suppress(ProcessLookupError):
            os.kill(at.rng.choice(pids), signal.SIGKILL)


def kill_everything(at: Disturbed, run: subprocess.Popen[str]) -> None:
    """SIGKILL of all at once, as when the power goes."""
    if at.at_some_time(run):
        for pid in processes(at.project.mark):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def terminate(at: Disturbed, run: subprocess.Popen[str]) -> None:
    """SIGTERM of ``tvmake make``."""
    if at.at_some_time(run):
        run.terminate()


def second_here(at: Disturbed, run: subprocess.Popen[str]) -> None:
    """A second ``tvmake make`` in the same directory: refused in two lines, or the first has ended."""
    if at.at_some_time(run):
        second = at.project.run("tvmake", "make")
        refused = second.returncode == 3 and second.stderr.count("\n") == 2 and "at work here" in second.stderr
        if not refused and run.poll() is None:
            at.problems.append(f"a second run was not refused ({second.returncode}): {second.stderr[-300:]}")


def second_elsewhere(at: Disturbed, run: subprocess.Popen[str]) -> None:
    """One in another directory, with the same records and the same cache."""
    other = Project(at.project.place, "other")
    shutil.rmtree(other.directory, ignore_errors=True)
    other.directory.mkdir()
    for name in ("digits.onnx", "digits-test.npz", "tvmake.yaml"):
        shutil.copy(at.project.directory / name, other.directory)
    at.others.append((other, other.start()))


def remove_result(at: Disturbed, run: subprocess.Popen[str]) -> None:
    """A file of the results is gone."""
    if at.at_some_time(run) and (files := at.files(at.project.results)):
        gone = at.rng.choice(files)
        gone.unlink(missing_ok=True)
        at.notes.append(f"removed {gone.relative_to(at.project.results)}")


def cut_short(at: Disturbed, run: subprocess.Popen[str]) -> None:
    """All is killed, and a result of an unfinished job is half there."""
    kill_everything(at, run)
    run.wait()
    marks = sorted((at.project.directory / ".snakemake" / "incomplete").rglob("*"))
    unfinished = [path for mark in marks if mark.is_file() and (path := _marked(at.project, mark))]
    if unfinished:
        path = at.rng.choice(unfinished)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((path.read_bytes() if path.is_file() else b'{"schema_version": 1, ')[:100])
        at.notes.append(f"cut {path.relative_to(at.project.results)}")


def _marked(project: Project, mark: Path) -> Path | None:
    """The file that a mark of Snakemake's names; of directories none."""
    import base64

    root = project.directory / ".snakemake" / "incomplete"
    coded = "".join(part.removeprefix("@") for part in mark.relative_to(root).parts)
    try:
        named = project.directory / base64.b64decode(coded, altchars=b"_-").decode()
    except ValueError:
        return None
    return None if named.is_dir() or not named.suffix else named


def full_disk(at: Disturbed) -> None:
    """The results lie on a disk with room for a few more kilobytes."""
    results = at.project.results
    used = sum(path.stat().st_size // 4096 * 4 + 8 for path in results.rglob("*"))
    aside = at.project.place / "aside"
    results.rename(aside)
    results.mkdir()
    size = used + at.rng.choice((0, 40, 120, 250))
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}k", "tvmake-faults", results], check=True)
    shutil.copytree(aside, results, dirs_exist_ok=True, symlinks=True)

    def room() -> None:
        subprocess.run(["mount", "-o", "remount,size=64m", results], check=True)

    at.after.append(room)


def clock_skew(at: Disturbed) -> None:
    """Some files have other times, by up to an hour."""
    project = at.project.directory
    files = [path for path in at.files(project) if at.rng.random() < 0.3]
    for path in files:
        known = path.stat()
        by = at.rng.uniform(-3600, 3600)
        with suppress(OSError):
            os.utime(path, (known.st_atime + by, known.st_mtime + by))
    at.notes.append(f"{len(files)} times moved")


def late_files(at: Disturbed) -> None:
    """Processes see each other's files late."""
    notes = at.project.place / "late"
    notes.mkdir()
    roots = f"{at.project.results}:{at.project.home}"
    at.project.extra = {
        "LD_PRELOAD": str(at.library),
        "LATE_S": LATE_S,
        "LATE_ROOTS": roots,
        "LATE_NOTES": str(notes),
    }
    # As the profiles for clusters say.
    at.arguments += ["--latency-wait", "30"]
    at.after.append(at.project.extra.clear)


BEFORE: dict[str, Callable[[Disturbed], None]] = {
    "full-disk": full_disk,
    "clock-skew": clock_skew,
    "late-files": late_files,
}
MEANWHILE: dict[str, Fault] = {
    "second-elsewhere": second_elsewhere,
    "second-here": second_here,
    "remove-result": remove_result,
    "kill-job": kill_job,
    "kill-controller": kill_controller,
    "kill-everything": kill_everything,
    "terminate": terminate,
    "cut-short": cut_short,
}
FAULTS = (*BEFORE, *MEANWHILE)
"""In the order in which those of one round happen."""


class References:
    """The projects as undisturbed runs leave them; made once."""

    def __init__(self, directory: Path):
        self.weights = [directory / "old.onnx", directory / "new.onnx"]
        shutil.copy(ROOT / "resources" / "digits.onnx", self.weights[0])
        changed_weights(self.weights[0], self.weights[1])
        self.project = Project(directory / "reference")
        self.project.create(self.weights[0])
        self._make(self.project)
        self.fixed = [self.project.hermetic()]
        new = Project(directory / "reference", "changed")
        new.create(self.weights[1])
        self._make(new)
        self.fixed.append(new.hermetic())
        # What the second run found out of the records counts in the first one too.
        shutil.rmtree(new.directory)
        self.seconds = 0.0

    def _make(self, project: Project) -> None:
        run = project.start()
        if run.wait():
            sys.exit(f"without a fault: exit code {run.returncode}\n{project.last_words()}")


def differences(found: dict[str, bytes], wanted: dict[str, bytes]) -> list[str]:
    """Files that are other than wanted; those that nobody needed again may be missing."""
    wrong = [name for name, data in found.items() if wanted.get(name) != data]
    changed = [
        line
        for name in wrong
        if name.endswith("best.json")
        for line in difflib.unified_diff(
            wanted.get(name, b"").decode().splitlines(), found[name].decode().splitlines(), lineterm="", n=0
        )
    ]
    needed = [name for name in wanted if name.endswith(("package.tar", "mod.json", "best.json"))]
    told = [f"{name} is wrong" for name in wrong] + ["\n".join(changed)[:3000]] * bool(changed)
    return told + [f"{name} is missing" for name in needed if name not in found]


def made_anew(project: Project, weights: Path, more_trials: int) -> dict[str, bytes]:
    """What an empty directory makes of the same records, without the cache."""
    fresh = Project(project.place / "fresh")
    fresh.create(weights, more_trials)
    shutil.copytree(project.home, fresh.home)
    done = fresh.make("--no-cache")
    if done.returncode:
        return {"an empty directory": (done.stdout + done.stderr)[-500:].encode()}
    return fresh.hermetic()


def look(project: Project, seen: dict[str, set[bytes]], wanted: dict[str, bytes]) -> list[str]:
    """What is wrong with a project that was made to its end."""
    found = differences(project.hermetic(), wanted)
    if lost := missing(seen, record_lines(project.home / "records")):
        found.append(f"{lost} records are lost")
    again = project.make("--dry-run")
    if "nothing to do" not in again.stdout + again.stderr:
        found.append(f"something is left to do: {(again.stdout + again.stderr)[-300:]}")
    found += half_written(project.results)
    found += [f"left behind: {path}" for path in leftovers(project.directory, project.home, project.place / "cache")]
    for what in (("records", "verify"), ("cache", "verify")):
        done = project.command(*what)
        if done.returncode:
            found.append(f"tvmake {' '.join(what)}: {(done.stdout + done.stderr)[-300:]}")
    return found


@contextmanager
def unmounted(project: Project) -> Iterator[None]:
    """Nothing stays mounted behind the block."""
    try:
        yield
    finally:
        while os.path.ismount(project.results):  # Path.is_mount misses none of ours either, but follows links
            subprocess.run(["umount", "-l", project.results], check=True)


def play(number: int, rng: random.Random, references: References, library: Path, kinds: list[str]) -> Round:
    """One round in a directory of its own."""
    faults = sorted(rng.sample(kinds, min(len(kinds), rng.choice((1, 2)))), key=FAULTS.index)
    new_weights, more = rng.random() < 0.5, rng.choice((1, 2)) if rng.random() < MORE_TRIALS else 0
    played = Round(number, faults, rng.choice(list(STAGES)), new_weights, more)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tvmake-fault-", ignore_cleanup_errors=True) as temporary:
        place = Path(temporary) / "place"
        shutil.copytree(references.project.place, place, symlinks=True)
        project = Project(place)
        with unmounted(project):
            _disturb(played, project, rng, references, library)
            if not played.problems:
                weights = references.weights[new_weights]
                wanted = made_anew(project, weights, more) if more else references.fixed[new_weights]
                played.problems = look(project, played.seen, wanted)  # type: ignore[attr-defined]
    played.seconds = time.monotonic() - began
    return played


def _remove(project: Project, stage: str) -> None:
    for later in list(STAGES)[list(STAGES).index(stage) :]:
        for pattern in STAGES[later]:
            for path in project.results.glob(pattern):
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def _disturb(played: Round, project: Project, rng: random.Random, references: References, library: Path) -> None:
    _remove(project, played.removed_from)
    if rng.random() < 0.3:
        shutil.rmtree(project.place / "cache")
    if played.more_trials:
        project.configure(played.more_trials)
    if played.new_weights:
        source = project.directory / "digits.onnx"
        times = source.stat()
        shutil.copy(references.weights[1], source)
        if rng.random() < 0.5:  # as `cp -p` and `rsync -a` do
            os.utime(source, (times.st_atime, times.st_mtime))
    seen = record_lines(project.home / "records")
    at = Disturbed(project, rng, library, longest_s=rng.choice((3.0, 8.0, 15.0, 25.0)))
    for name in played.faults:
        if name in BEFORE:
            BEFORE[name](at)
    run = project.start(*at.arguments)
    for name in played.faults:
        if name in MEANWHILE:
            MEANWHILE[name](at, run)
    try:
        code = run.wait(LIMIT_S)
    except subprocess.TimeoutExpired:
        played.problems.append("the disturbed run hangs")
        run.kill()
        code = run.wait()
    _add(seen, record_lines(project.home / "records"))
    left = orphans(project.mark) if not at.others else []
    for undo in at.after:
        undo()
    for other, second in at.others:
        if second.wait(LIMIT_S) and other.make().returncode:
            played.problems.append(f"the run in another directory failed: {other.last_words()}")
        elif not played.more_trials:
            wrong = differences(other.hermetic(), references.fixed[played.new_weights])
            played.problems += [f"in the other directory: {one}" for one in wrong]
        left += orphans(other.mark)
    _add(seen, record_lines(project.home / "records"))
    played.told = [*at.notes, f"ended with {code}"]
    played.problems += [*at.problems, *(f"a process is left: {one}" for one in left)]
    while not played.problems:
        played.attempts += 1
        code = project.make().returncode
        if code == 0:
            break
        if played.attempts == ATTEMPTS:
            played.problems.append(f"failed {ATTEMPTS} times without a fault: {project.last_words()}")
    said = (project.place / f"{project.directory.name}.log").read_text(errors="replace")
    if "Traceback" in said:
        played.problems.append(f"a traceback: {said[max(0, said.index('Traceback') - 500) :][:1500]}")
    played.problems += [f"a process is left: {one}" for one in orphans(project.mark)]
    played.seen = seen  # type: ignore[attr-defined]


def _add(seen: dict[str, set[bytes]], now: dict[str, set[bytes]]) -> None:
    for path, lines in now.items():
        seen.setdefault(path, set()).update(lines)


def report(rounds: list[Round]) -> None:
    """Print what happened by fault, then everything as one JSON line."""
    print(f"\n{len(rounds)} rounds ({machine()})")
    print(f"  {'fault':<18} {'rounds':>6} {'run ended by it':>16} {'reruns, at most':>16} {'wrong':>6}")
    counts = Counter(name for one in rounds for name in one.faults)
    for name in FAULTS:
        own = [one for one in rounds if name in one.faults]
        if not own:
            continue
        ended = sum(any(re.fullmatch(r"ended with (?!0$).*", said) for said in one.told) for one in own)
        most, wrong = max(one.attempts for one in own), sum(bool(one.problems) for one in own)
        print(f"  {name:<18} {counts[name]:>6} {ended:>16} {most:>16} {wrong:>6}")
    print(f"seconds a round: {sum(one.seconds for one in rounds) / max(1, len(rounds)):.1f}")
    for one in rounds:
        for problem in one.problems:
            print(f"PROBLEM: round {one.number} ({', '.join(one.faults)}): {problem}")
    print(json.dumps({"rounds": [asdict(one) for one in rounds], "where": machine()}))


def main() -> int:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="each round has its own, from this one and its number")
    parser.add_argument("--first", type=int, default=0, help="number of the first round, to play one again")
    parser.add_argument("--faults", nargs="+", choices=FAULTS, default=list(FAULTS))
    arguments = parser.parse_args()
    rounds: list[Round] = []
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tvmake-faults-")))
        library = directory / "late_names.so"
        source = ROOT / "tests" / "workflow" / "late_names.c"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
        references = References(directory)
        try:
            for number in range(arguments.first, arguments.first + arguments.rounds):
                rng = random.Random(f"{arguments.seed} {number}")
                one = play(number, rng, references, library, arguments.faults)
                rounds.append(one)
                told = f"{', '.join(one.faults)}; from {one.removed_from}; {'; '.join(one.told)}"
                print(
                    f"round {number}: {told}; {one.attempts} reruns, {one.seconds:.0f} s", file=sys.stderr, flush=True
                )
                for problem in one.problems:
                    print(f"  PROBLEM: {problem}", file=sys.stderr, flush=True)
        except KeyboardInterrupt:
            pass
        report(rounds)
    return 1 if any(one.problems for one in rounds) else 0


if __name__ == "__main__":
    sys.exit(main())
