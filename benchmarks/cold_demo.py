"""Wall time of the pipeline without existing results, against the straight-line script.

    python benchmarks/cold_demo.py [--rounds 3] [--work demo] [--cores 2]

Two workloads: the demo (4 variants) and eight variants, each with all cores, as ``tvmake make`` does by default.
Every round starts without results, with an empty store, in a fresh directory.
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

import yaml
from comparing import ROOT, environment, interleaved, report, timed

DATASET = {"path": "resources/digits-test.npz", "preprocess": {"scale": 0.0625}}


def configs() -> dict[str, dict]:
    """The two workloads' configs."""
    demo = yaml.safe_load((ROOT / "config" / "config.yaml").read_text())
    # Searching is another matter (see measuring.py); what is compared here is the pipeline.
    del demo["targets"]["tuned"], demo["variants"]
    eight = {
        **demo,
        "models": {
            **demo["models"],
            "digits_pt2": {"source": "resources/digits.pt2", "dataset": DATASET},
            "squeezenet": {"source": "zoo:squeezenet1_1", "precisions": ["float32"]},
        },
    }
    return {"demo": demo, "eight": eight}


def pipeline(config: dict, cores: int) -> float:
    """One cold run."""
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary) / "project"
        shutil.copytree(ROOT / "resources", directory / "resources")
        (directory / "tvmake.yaml").write_text(yaml.safe_dump(config))
        env = environment(TVMAKE_HOME=str(Path(temporary) / "home"))
        return timed(["tvmake", "make", "--cores", str(cores)], directory, env)


def script(work: str, fold: str) -> float:
    """One run of the straight-line script."""
    command = [sys.executable, str(ROOT / "benchmarks" / "straight_line.py"), work, "--fold", fold]
    return timed(command, ROOT, environment())


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work", choices=["demo", "eight"], action="append")
    parser.add_argument("--cores", type=int, action="append", help="Cores to give tvmake; repeatable. [1 and 2]")
    arguments = parser.parse_args()
    for work, config in configs().items():
        if arguments.work and work not in arguments.work:
            continue
        subjects = {
            "straight line": lambda w=work: script(w, "tvm"),
            "straight line, numpy folding": lambda w=work: script(w, "numpy"),
            **{f"tvmake make --cores {n}": lambda c=config, n=n: pipeline(c, n) for n in arguments.cores or (1, 2)},
        }
        report(f"cold run, {work}", interleaved(arguments.rounds, subjects), "straight line")


if __name__ == "__main__":
    main()
