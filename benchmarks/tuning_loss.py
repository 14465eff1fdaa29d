"""Check that tuning loses no trial: a small network is tuned while processes are killed at random moments.

    python benchmarks/tuning_loss.py [local] [rpc] [pure] [--rounds 20] [--seed 0] [--trials 60]

``local``: each round kills one process of a ``tvmake make`` with SIGKILL: the tuning job, a process that builds or runs
a candidate, one that those are forked from, ``tvmake make`` itself, or all of it at once. Whenever the run has ended, the
same command is given again until all is made; then it starts over with an empty directory while rounds are left.
``rpc``: the same on two RPC servers behind a tracker, which are killed and started again as well.
``pure``: a search whose latencies are made from the schedule, so that the end must be exactly that of an undisturbed
one; see pure_search.py.

Checked after every kill, and at the end of each project:

- every complete line of the records is still there, and every trial of the event logs has its record;
- each kernel has the trials of its budget, and no candidate was measured twice;
- every file under results can be read; no temporary file is left; the same command has nothing to do;
- no process is left when its run has ended.

Reported beside that: candidates that were built and not yet measured at a kill (their work is lost), candidates whose
record blames them for the kill, and with ``--undisturbed`` the best latencies against those of an undisturbed project.
Exits with 1 when anything was lost.
"""

import argparse
import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, get_args

import pure_search
import yaml
from comparing import ROOT, environment, machine
from farm import HOST, KEY, Farm, farm
from killing import (
    MARK,
    FarmKind,
    Kind,
    LocalKind,
    half_written,
    kill,
    leftovers,
    missing,
    orphans,
    record_lines,
    victims,
)

LOCAL: tuple[Kind, ...] = get_args(LocalKind)
RPC: tuple[Kind, ...] = (*LOCAL, *get_args(FarmKind))
SERVERS = 2

WAIT_S = 1800.0
"""For a process of the wanted kind to be there."""

POLL_S = 0.03

FRUITLESS = 3
"""Projects in a row that may be made without meeting what is to be killed."""

BLAMED = ("SIGKILL", "the process it was forked from")
"""In the error of a candidate whose process was killed."""


@dataclass
class Kill:
    """One kill, and what it cost."""

    kind: Kind
    at_s: float
    """Since the run began."""
    stored: int
    """Records there were."""
    unmeasured: int
    """Candidates that were built and waited to be measured."""
    ended_run: bool = False
    """Of several kills in a run, the last one counts."""
    lost: int = 0
    orphans: list[str] = field(default_factory=list)
    half_written: list[str] = field(default_factory=list)


class Project:
    """A small network in a directory of its own, with its own records and temporary files.

    Args:
        devices: where it is tuned; on this machine when None.
    """

    def __init__(self, directory: Path, trials: int, batch: int, cost_model: str, devices: Farm | None):
        self.directory, self.home, self.temporary = directory / "project", directory / "home", directory / "tmp"
        for made in (self.directory, self.home, self.temporary):
            made.mkdir(parents=True)
        shutil.copy(ROOT / "resources" / "digits.onnx", self.directory)
        tuning = {"trials": trials, "floor": 4, "batch": batch, "population": 16, "cost_model": cost_model}
        config: dict[str, Any] = {
            "models": {"digits": {"source": "digits.onnx"}},
            "precisions": ["float32"],
            "targets": {"cpu": {"kind": "llvm", "mcpu": "native", **({"device": "farm"} if devices else {})}},
            "tuning": {**tuning, "measure": {"repeat": 2, "min_repeat_ms": 5}},
            "benchmark": {"repeat": 3, "warmup": 1},
        }
        if devices:
            config["devices"] = {"farm": {"via": "rpc", "tracker": f"{HOST}:{devices.port}", "key": KEY}}
        (self.directory / "tvmake.yaml").write_text(yaml.safe_dump(config))
        self.mark = ""
        self.began = 0.0
        self.seen: dict[str, set[bytes]] = {}

    @property
    def store(self) -> Path:
        """Its records."""
        return self.home / "records"

    def start(self) -> subprocess.Popen[bytes]:
        """``tvmake make``, in a session of its own."""
        self.mark, self.began = uuid.uuid4().hex, time.monotonic()
        env = environment(TVMAKE_HOME=str(self.home), TMPDIR=str(self.temporary), **{MARK: self.mark})
        with (self.directory / "make.log").open("ab") as log:
            return subprocess.Popen(
                ["tvmake", "make"], cwd=self.directory, env=env, stdout=log, stderr=log, start_new_session=True
            )

    def look(self) -> int:
        """Remember the records there are; returns how many of those seen before are missing."""
        now = record_lines(self.store)
        lost = missing(self.seen, now)
        for path, lines in now.items():
            self.seen.setdefault(path, set()).update(lines)
        return lost

    def stored(self) -> int:
        """How many records there are."""
        return sum(map(len, record_lines(self.store).values()))

    def unmeasured(self) -> int:
        """Candidates that were built and not yet measured, at most of one job."""
        jobs = self.temporary.glob("tvmake-measuring-*")
        return max((sum(1 for _ in job.glob("*.so")) for job in jobs), default=0)

    def records(self) -> list[dict[str, Any]]:
        """Every record of the store, with its kernel."""
        lines = [json.loads(line) for lines in record_lines(self.store).values() for line in sorted(lines)]
        return [{"workload": line["workload"], **line["record"]} for line in lines if "record" in line]

    def events(self) -> list[dict[str, Any]]:
        """Every finished trial that the jobs told of."""
        logs = sorted(self.directory.glob("logs/tuning/**/*.events.jsonl"))
        told = [json.loads(line) for log in logs for line in log.read_text().splitlines()]
        return [line for line in told if line["event"] == "trial"]

    def best_ms(self) -> dict[str, float]:
        """The best latency of each kernel, whatever its output."""
        best: dict[str, float] = {}
        for record in self.records():
            if record["status"] == "ok":
                latency = statistics.median(record["samples_s"]) * 1e3
                best[record["workload"]] = min(latency, best.get(record["workload"], latency))
        return best

    def last_words(self) -> str:
        """The end of what its commands printed."""
        return (self.directory / "make.log").read_text(errors="replace")[-3000:]


def problems(project: Project) -> list[str]:
    """What is wrong with a project that was made to its end."""
    found = []
    records = project.records()
    stored = Counter((record["workload"], record["status"], _latency_ms(record)) for record in records)
    told = Counter((event["workload"], event["status"], event["latency_ms"]) for event in project.events())
    if unknown := told - stored:
        found.append(f"{unknown.total()} finished trials have no record")
    trials = Counter(record["workload"] for record in records if record["status"] != "device_lost")
    last = max(project.directory.glob("results/tuning/cpu/round*/budget.json"))
    for workload, budget in json.loads(last.read_text())["kernels"].items():
        if trials[workload] != budget["trials"]:
            found.append(f"kernel {workload[:12]} has {trials[workload]} records of {budget['trials']}")
    traces = Counter((record["workload"], json.dumps(record["trace"])) for record in records)
    if twice := sum(count - 1 for count in traces.values()):
        found.append(f"{twice} candidates were measured twice")
    found += half_written(project.directory / "results")
    found += [f"left behind: {path}" for path in leftovers(project.directory, project.home)]
    env = environment(TVMAKE_HOME=str(project.home), TMPDIR=str(project.temporary))
    again = subprocess.run(
        ["tvmake", "make", "--dry-run"], cwd=project.directory, env=env, capture_output=True, text=True, check=False
    )
    if "othing to" not in again.stdout + again.stderr:
        found.append("the same command has something left to do")
    return found


def _latency_ms(record: dict[str, Any]) -> float | None:
    return statistics.median(record["samples_s"]) * 1e3 if record["status"] == "ok" else None


def find(kind: Kind, project: Project, run: subprocess.Popen[bytes], devices: Farm | None) -> list[int]:
    """The processes of this kind that can be killed now; for servers, their indices in the farm."""
    match kind:
        case "server":
            return list(range(SERVERS)) if devices else []
        case "tracker":
            return [0] if devices else []
        case _:
            return victims(kind, project.mark, run.pid)


def strike(kind: Kind, victim: int, project: Project, devices: Farm | None) -> None:
    """Kill it; what belongs to the farm comes back after a while."""
    if kind not in get_args(FarmKind):
        kill(kind, victim, project.mark)  # type: ignore[arg-type]
    elif devices:
        devices.restart_server(victim) if kind == "server" else devices.restart_tracker()


def disturb(
    project: Project,
    run: subprocess.Popen[bytes],
    rng: random.Random,
    kind: Kind,
    most: int,
    devices: Farm | None,
) -> Kill | None:
    """Kill one process of the kind while kernels are tuned, once up to ``most`` more records are there.

    None when the run ends before. The moment is drawn in records, not in seconds, so that it is within the search
    whatever the machine's speed.
    """
    until = time.monotonic() + WAIT_S
    awaited: int | None = None
    while run.poll() is None and time.monotonic() < until:
        if awaited is None and victims("template", project.mark, run.pid):
            awaited = project.stored() + rng.randint(0, most)
        if awaited is not None and project.stored() >= awaited and (there := find(kind, project, run, devices)):
            lost = project.look()
            done = Kill(
                kind, time.monotonic() - project.began, sum(map(len, project.seen.values())), project.unmeasured()
            )
            strike(kind, rng.choice(there), project, devices)
            done.lost = lost + project.look()
            done.half_written = half_written(project.directory / "results")
            return done
        time.sleep(POLL_S)
    return None


def make(project: Project, rng: random.Random, plan: list[Kind], most: int, devices: Farm | None = None) -> list[Kill]:
    """Make a project to its end, with kills as planned while it lasts; those that happened leave ``plan``."""
    kills: list[Kill] = []
    while True:
        run, before = project.start(), len(kills)
        while plan and (done := disturb(project, run, rng, plan[0], most, devices)) is not None:
            kills.append(done)
            plan.pop(0)
            told = (
                f"{done.kind} after {done.at_s:.1f} s, {done.stored} records, {done.unmeasured} candidates unmeasured"
            )
            print(f"killed: {told}", file=sys.stderr)
        code = run.wait()
        left, lost = orphans(project.mark), project.look()
        if len(kills) > before:
            kills[-1].ended_run, kills[-1].orphans = bool(code), left
            kills[-1].lost += lost
        elif code or left or lost:
            sys.exit(f"without a kill: exit code {code}, orphans {left}, {lost} records lost\n{project.last_words()}")
        if code == 0:
            return kills


def report(title: str, kills: list[Kill], blamed: int, faults: list[str], ratios: list[float]) -> None:
    """Print what happened by kind, then everything as one JSON line."""
    print(f"\n{title}: {len(kills)} kills ({machine()})")
    print(
        f"  {'killed':<12} {'kills':>5} {'ended the run':>14} {'records lost':>13} {'orphans':>8} {'unmeasured, at most':>20}"
    )
    for kind in RPC:
        own = [kill for kill in kills if kill.kind == kind]
        if own:
            ended, lost = sum(one.ended_run for one in own), sum(one.lost for one in own)
            left, waiting = sum(len(one.orphans) for one in own), max(one.unmeasured for one in own)
            print(f"  {kind:<12} {len(own):>5} {ended:>14} {lost:>13} {left:>8} {waiting:>20}")
    print(f"candidates whose record blames them for a kill: {blamed}")
    if ratios:
        middle, least, most = statistics.geometric_mean(ratios), min(ratios), max(ratios)
        print(f"best latencies, disturbed / undisturbed: {middle:.2f} in the mean, {least:.2f} to {most:.2f}")
    print("\n".join(f"PROBLEM: {line}" for line in faults) or "nothing was lost")
    what = {"title": title, "kills": [asdict(kill) for kill in kills], "blamed": blamed, "problems": faults}
    print(json.dumps({**what, "ratios": ratios, "where": machine()}))


def kill_makes(title: str, arguments: argparse.Namespace, directory: Path, devices: Farm | None) -> list[str]:
    """Kill as often as asked, in as many projects as that takes; returns what must not be."""
    rng = random.Random(arguments.seed)
    kinds = [kind for kind in (RPC if devices else LOCAL) if kind in (arguments.kinds or RPC)]
    plan = [kinds[number % len(kinds)] for number in range(arguments.rounds)]
    rng.shuffle(plan)

    def project(name: str) -> Project:
        return Project(directory / name, arguments.trials, arguments.batch, arguments.cost_model, devices)

    kills: list[Kill] = []
    faults: list[str] = []
    ratios: list[float] = []
    reference: dict[str, float] = {}
    blamed = fruitless = 0
    if arguments.undisturbed:
        undisturbed = project("undisturbed")
        make(undisturbed, rng, [], 0, devices)
        reference = undisturbed.best_ms()
    number = 0
    while plan:
        disturbed, number = project(f"disturbed{number}"), number + 1
        now = make(disturbed, rng, plan, arguments.most, devices)
        kills, fruitless = kills + now, 0 if now else fruitless + 1
        if fruitless == FRUITLESS:
            sys.exit(f"{FRUITLESS} runs ended without a moment to kill a {plan[0]}")
        faults += problems(disturbed)
        blamed += sum(any(word in (record["error"] or "") for word in BLAMED) for record in disturbed.records())
        ratios += [ms / reference[kernel] for kernel, ms in disturbed.best_ms().items() if kernel in reference]
    for event in kills:
        faults += [f"a kill of {event.kind} lost {event.lost} records"] if event.lost else []
        faults += [f"a kill of {event.kind} left {left}" for left in [*event.orphans, *event.half_written]]
        if event.unmeasured > arguments.batch:
            faults.append(f"a kill of {event.kind} came when {event.unmeasured} candidates were unmeasured")
    report(title, kills, blamed, faults, ratios)
    return faults


def main() -> int:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=["local", "rpc", "pure"], help="local, rpc, pure; all by default")
    parser.add_argument("--rounds", type=int, default=20, help="kills")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--cost-model", default="xgb")
    parser.add_argument("--most", type=int, default=10, help="records between two kills at most")
    parser.add_argument("--kinds", nargs="+", choices=RPC, help="what to kill; everything by default")
    parser.add_argument("--undisturbed", action="store_true", help="make an undisturbed project first, to compare with")
    arguments = parser.parse_args()
    faults: list[str] = []
    with tempfile.TemporaryDirectory(prefix="tvmake-loss-") as temporary:
        directory = Path(temporary)
        if "local" in arguments.what:
            faults += kill_makes("on this machine", arguments, directory / "local", None)
        if "rpc" in arguments.what:
            with farm(directory / "farm", SERVERS) as devices:
                faults += kill_makes(f"on {SERVERS} RPC servers", arguments, directory / "rpc", devices)
        if "pure" in arguments.what:
            rng = random.Random(arguments.seed)
            faults += pure_search.report(pure_search.compare(directory, arguments.trials, arguments.rounds, rng))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
