"""``tvmake make`` refuses an invalid command line before anything is made."""

import shutil
from pathlib import Path

import pytest

from tests.cli.checking import tvmake
from tests.workflow.project import ROOT


@pytest.mark.parametrize(
    ("arguments", "code", "problem", "remedy"),
    [
        (["--cores", "0"], 2, "--cores 0: expected a number of cores", ""),
        (["--cores", "many"], 2, "--cores many: expected a number of cores", ""),
        (["-j", "-3"], 2, "--cores -3: expected a number of cores", ""),
        (
            ["--snakefile", "mine"],
            2,
            "--snakefile: is an option that tvmake passes to snakemake",
            "snakemake --snakefile FILE",
        ),
        (
            ["--configfile=mine.yaml"],
            2,
            "--configfile=mine.yaml: is an option that tvmake passes",
            "name config files with -c",
        ),
        (["results/digit/float32/cpu/package.tar"], 1, "the config has no model 'digit'", "did you mean 'digits'?"),
        (["digit"], 2, "digit: is neither a variant, a stage nor a file that a job makes", "digits/float32/cpu"),
        (["digits/float23/cpu"], 2, "digits/float23/cpu: is neither a variant", "did you mean 'digits/float32/cpu'?"),
        (["."], 2, ".: is neither a variant", "digits/float32/cpu"),
        ([""], 2, "'': is neither a variant", "digits/float32/cpu"),
        (["./results/digits/float16/cpu/mod.so"], 1, "the config has no precision 'float16'", "'float32'"),
    ],
)
def test_what_cannot_be_made_is_refused(tmp_path: Path, arguments, code, problem, remedy):
    shutil.copy(ROOT / "resources" / "digits.onnx", tmp_path)
    (tmp_path / "tvmake.yaml").write_text("models: {digits: {source: digits.onnx}}\nprecisions: [float32]\n")
    done = tvmake(tmp_path, "make", *arguments)
    assert done.returncode == code, done.stderr
    assert problem in done.stderr and remedy in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "results").exists()
