"""Rounds of random faults during a run, the same command again, and a check of everything that remains.

    python benchmarks/random_faults.py [--rounds 100] [--seed 0] [--faults kill-job full-disk …] [--jobs 2]

A small network is built once, untuned and tuned a little, and so is the same network with other weights. Each round starts
from the finished project with some of its results removed, and in half of the rounds with the other weights. One or two
faults happen while ``tvmake make`` is running; then the same command is repeated, as the documentation says, until it
succeeds:

- SIGKILL of ``tvmake make``, of one of its processes, or of all of them at once; SIGTERM;
- a full disk; it has room again before the command is given again;
- a second ``tvmake make`` in the same directory, and one in another directory with the same records and the same cache;
- times of sources, results and Snakemake's notes moved by minutes, to the past and to the future;
- files that other processes see late (tests/workflow/late_names.c);
- results damaged or altered, with new times or their old ones; Snakemake's and tvmake's notes on them damaged;
- a result removed, before or meanwhile; a result of an unfinished job cut short;
- a node of a Slurm cluster drained, and resumed later (where Slurm and Snakemake's plugin for it are installed).

Checked then: files whose bytes are fixed by the inputs are those of the undisturbed project; every record that was there
is there; in rounds that measured more, what was built is what an empty directory makes of the same records; nothing is
left to do; ``tvmake records verify`` and ``tvmake cache verify`` find nothing; no temporary file and no process is left.

Exits with 1 when anything is otherwise; the round's directory is kept below ``--evidence`` then, and the other rounds are
played. A round depends on the seed, its number and the faults to choose from: ``--first 19 --rounds 1`` plays round 19
again. The table is Markdown, the last line JSON. Mounting small disks takes root.
"""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path

from comparing import ROOT
from faults.drain import DRAIN, cluster, is_possible
from faults.kinds import FAULTS
from faults.project import References
from faults.rounds import Round, Setting, play
from faults.summary import as_json, markdown


def main() -> int:
    """See the module's docstring."""
    possible = [name for name in FAULTS if name != DRAIN or is_possible()]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="each round has its own, from this one and its number")
    parser.add_argument("--first", type=int, default=0, help="number of the first round, to play one again")
    parser.add_argument("--faults", nargs="+", choices=FAULTS, default=possible)
    parser.add_argument("--jobs", type=int, default=1, help="rounds at a time")
    parser.add_argument("--evidence", type=Path, default=Path("build/fault-evidence"), help="what failing rounds leave")
    arguments = parser.parse_args()
    # SIGTERM ends it as Ctrl-C does: the rounds that are under way end, and the table tells of those that were played.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    evidence = arguments.evidence.absolute()
    evidence.mkdir(parents=True, exist_ok=True)
    rounds: list[Round] = []
    with ExitStack() as stack:
        temporary = stack.enter_context(tempfile.TemporaryDirectory(prefix="tvmake-faults-"))
        if DRAIN in arguments.faults:
            stack.enter_context(cluster())
        library = Path(temporary) / "late_names.so"
        source = ROOT / "tests" / "workflow" / "late_names.c"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
        setting = Setting(arguments.seed, arguments.faults, References(Path(temporary)), library, evidence)
        numbers = range(arguments.first, arguments.first + arguments.rounds)
        try:
            with (evidence / "rounds.jsonl").open("a") as done:
                for one in _played(numbers, setting, arguments.jobs):
                    rounds.append(one)
                    done.write(json.dumps({"seed": arguments.seed, **asdict(one)}) + "\n")
                    done.flush()
                    _say(one)
        except (KeyboardInterrupt, BrokenExecutor) as end:
            print(f"ended early: {end!r}", file=sys.stderr)
    rounds.sort(key=lambda one: one.number)
    if rounds:
        print(markdown(rounds, arguments.seed))
        print(as_json(rounds, arguments.seed))
    return 1 if len(rounds) < arguments.rounds or any(one.problems for one in rounds) else 0


def _played(numbers: range, setting: Setting, jobs: int) -> Iterator[Round]:
    """The rounds, as they end."""
    if jobs == 1:
        yield from (play(number, setting) for number in numbers)
        return
    # Each process has a loaded Snakemake of its own (tests/workflow/preloaded.py).
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        try:
            for future in as_completed([pool.submit(play, number, setting) for number in numbers]):
                yield future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _say(one: Round) -> None:
    told = [", ".join(one.faults), f"from {one.removed_from}", *one.notes, f"ended with {one.code}"]
    print(f"round {one.number}: {'; '.join(told)}; {one.reruns} reruns, {one.seconds:.0f} s", file=sys.stderr)
    for problem in one.problems:
        print(f"  PROBLEM: {problem}", file=sys.stderr)
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
