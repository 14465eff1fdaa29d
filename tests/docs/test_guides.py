"""What the guides, concepts and references show: every command exists, and runs or is listed with the reason why not."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
import yaml

from tests.docs.test_commands import commands, unknown_commands
from tests.process import shared
from tests.requirements import need_module
from tests.workflow.project import ROOT, Project
from tvmake.cli.app import command as tvmake_command
from tvmake.config.reading.load import check, merge
from tvmake.process.forkserver.client import DIRECTORY

DOCS = ROOT / "docs"
GENERATED = {
    "reference/commands.md",
    "reference/config-reference.md",
    "reference/python.md",
    "reference/repairs.md",
    "reference/stages.md",
}
PAGES = [
    page
    for page in sorted(DOCS.rglob("*.md"))
    if page.parent.name != "getting-started" and str(page.relative_to(DOCS)) not in GENERATED
]

RUNS: dict[str, list[str]] = {
    "concepts/reruns.md": [],
    "guides/cache.md": [],
    "guides/functions.md": [
        """python -c "import onnx; text = '<ir_version: 8, opset_import: [\\"\\": 17]> net (float[{}, 4] x) => (float[{}, 4] y) {{ y = Tanh(x) }}'; [onnx.save(onnx.parser.parse_model(text.format(rows, rows)), name) for rows, name in ((1, 'decode.onnx'), (8, 'prefill.onnx'))]\"""",
        f'PYTHONPATH={ROOT}:$PYTHONPATH python -W ignore -c "from pathlib import Path; from tests.encoder_decoders import write_whisper as w; w(Path())"',
    ],
    "guides/states.md": [
        """python -c "import onnx; onnx.save(onnx.parser.parse_model('<ir_version: 8, opset_import: [\\"\\": 17]> gate (float[1, 4] x, float[1, 4] h) => (float[1, 4] y, float[1, 4] h_next) { h_next = Tanh(h) y = Add(x, h_next) }'), 'gate.onnx')\"""",
        f"PYTHONPATH={ROOT}:$PYTHONPATH python -c \"from tests.decoders import write_onnx_decoder as w; w('decoder.onnx')\"",
    ],
    "guides/decoders.md": [
        f"PYTHONPATH={ROOT}:$PYTHONPATH python -c \"from tests.decoders import write_language_model as w; w('tiny-llama', 'llama')\""
    ],
    "guides/use-a-package.md": [
        "cp -r results/digits results/mine",
        "tvmake pack prefill=results/digits/float32/cpu/package.tar decode=results/digits/float32/cpu/package.tar -o speech.tar",
    ],
    "guides/verify.md": [
        "mkdir -p ~/.ssh && ssh-keygen -q -t ed25519 -N '' -f ~/.ssh/id_ed25519 && cp ~/.ssh/id_ed25519.pub release.pub",
        "cp results/digits/float32/cpu/package* .",
        "tvmake sign package.tar --key ~/.ssh/id_ed25519",
    ],
    "reference/results.md": ["mkdir old && cp results/summary.json old"],
    "guides/rebuild.md": [],
    "guides/debug.md": [],
}
"""Pages whose commands run one after the other where ``tvmake make`` has run, after these."""

ELSEWHERE = {
    "concepts/opencl-runtime.md": "compiles OpenCL parts for minutes; tests/native does",
    "concepts/records.md": "names records of another machine; tests/records has each command",
    "concepts/schedules.md": "names a network of the reader; tests/cli/test_compile.py has the warning",
    "guides/add-a-target.md": "of the target to write",
    "guides/adreno.md": "needs a GPU, and Qualcomm's SDK; tests/conformance and tests/native have PoCL and a stand-in",
    "guides/android.md": "needs Android's NDK; tests/native and tests/running have what needs none",
    "guides/cluster.md": "needs a cluster; tests/cluster has stand-ins",
    "guides/config.md": "the checkout's matrix, minutes; its config is checked",
    "guides/image.md": "needs Docker; tests/packaging/test_image.py runs the steps of the image",
    "guides/device-farm.md": "serves until it is stopped; tests/device has a farm",
    "guides/devices-adb.md": "needs a phone",
    "guides/devices-rpc.md": "serves until it is stopped; tests/device has a tracker",
    "guides/devices-ssh.md": "needs a board",
    "guides/native.md": "of the runtime's own sources; tests/native compiles them",
    "guides/passes.md": "the checkout's own example, which ends with 4; tests/workflow runs it",
    "guides/slurm.md": "needs Slurm; tests/cluster has one",
}
"""Pages whose commands are parsed only, and why."""

NOT_HERE = ("tvmake cache info 28418ac3", "snakemake ", "cd site")
"""Beginnings of commands of the others that are not run: another machine's digest; Snakemake's own, in a checkout; after a bundle
without a working directory of its own."""


def name(page: Path) -> str:
    return str(page.relative_to(DOCS))


def test_a_page_with_commands_is_run_or_has_a_reason():
    shown = {name(page) for page in PAGES if commands(page)}
    assert shown == RUNS.keys() | ELSEWHERE.keys()
    assert not RUNS.keys() & ELSEWHERE.keys()


@pytest.mark.parametrize("page", [page for page in PAGES if name(page) not in ELSEWHERE], ids=name)
def test_a_command_of_another_program_has_a_reason_why_it_is_not_run(page: Path):
    assert unknown_commands(page) == []


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=name)
def test_every_command_is_one_that_there_is(page: Path):
    for line in commands(page):
        for part in re.split(r" && | \| ", line):
            words = shlex.split(part)
            if words[0] == "tvmake":
                parse(words[1:], line)


def parse(words: list[str], line: str) -> None:
    """Read a command line as ``tvmake`` does, and run nothing."""
    known = tvmake_command()
    while hasattr(known, "commands"):
        assert words and words[0] in known.commands, f"no such command: {line}"
        known, words = known.commands[words[0]], words[1:]
    known.make_context(known.name, words)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The digits, made once, with a cache."""
    directory = tmp_path_factory.mktemp("guides") / "project"
    directory.mkdir()
    shutil.copy(ROOT / "resources/digits.onnx", directory)
    project = Project(directory)
    project.environment |= {"HOME": str(directory.parent), DIRECTORY: shared.directory()}
    native = {"kind": "llvm", "mcpu": "native"}
    project.write_config({"models": {"digits": {"source": "digits.onnx"}}, "targets": {"cpu": native}, "cache": True})
    done = project.make()
    assert done.returncode == 0, done.stderr
    return project


@pytest.mark.long
@pytest.mark.parametrize("page", RUNS)
def test_the_commands_of_a_page_run_one_after_the_other(page: str, project: Project):
    if page in ("guides/decoders.md", "guides/functions.md"):
        need_module("transformers", "pip install 'tvmake[transformers]'")
    shown = [line for line in commands(DOCS / page) if not line.startswith(NOT_HERE)]
    for line in [*RUNS[page], *shown]:
        done = project.shell(line)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"


BASE = {
    "models": {"digits": {"source": "digits.onnx"}},
    "precisions": ["float32", "float16"],
    "devices": {"phone": {"via": "adb"}},
}
"""What the shown parts of configs take for granted."""


@pytest.mark.parametrize("page", [page for page in PAGES if "```yaml" in page.read_text(encoding="utf-8")], ids=name)
def test_a_config_that_is_shown_is_right(page: Path):
    for block in re.findall(r"^```yaml\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE):
        values = yaml.safe_load(block)
        if isinstance(values, dict) and not set(values) & FRAGMENTS:
            models = {
                key: value if "functions" in value else {"source": "digits.onnx", **value}
                for key, value in (values.get("models") or {}).items()
            }
            check(merge(BASE, {**values, **({"models": models} if models else {})}), {})


FRAGMENTS = {"preprocess", "tvmake"}
"""Keys of a dataset, or of a host workflow's config, shown without what is around them."""
