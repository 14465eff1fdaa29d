"""The image: Containerfile's instructions, run in a bare Debian 12 without a container engine."""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.patience import HANG_S
from tests.requirements import need, require
from tests.workflow.project import ROOT, new_project

CONTAINERFILE = (ROOT / "Containerfile").read_text(encoding="utf-8")
SCRIPT = (ROOT / "envs/image.sh").read_text(encoding="utf-8")

INSTRUCTION = re.compile(r"^([A-Z]+) (.+)$", re.MULTILINE)

PASSED_ON = (
    "PIP_CERT",
    "PIP_FIND_LINKS",
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "PIP_DEFAULT_TIMEOUT",
    "SSL_CERT_FILE",
)
"""Variables of this machine that say where pip finds packages."""


def stages() -> dict[str, list[tuple[str, str]]]:
    """The instructions of each stage, those of the stages it begins with included."""
    found: dict[str, list[tuple[str, str]]] = {}
    name = ""
    for instruction, text in INSTRUCTION.findall(CONTAINERFILE):
        if instruction == "FROM":
            base, _, name = text.partition(" AS ")
            found[name] = list(found.get(base, []))
        else:
            found[name].append((instruction, text))
    return found


def test_every_install_step_is_one_of_the_script():
    steps = {text for instruction, text in INSTRUCTION.findall(CONTAINERFILE) if instruction == "RUN"}
    assert {step.split()[0] for step in steps} == {"/install/image.sh"}
    assert {step.split()[1] for step in steps} == set(re.findall(r"^(\w+)\)", SCRIPT, re.MULTILINE))


def test_the_default_stage_is_the_one_for_cpus():
    assert stages()[""] == stages()["cpu"]


def test_the_lock_has_the_libraries_of_every_extra_that_the_image_has():
    lock = (ROOT / "envs/image.lock").read_text()
    for name in (
        "keras",
        "jax",
        "ai-edge-litert",
        "torch",
        "s3fs",
        "ziglang",
        "snakemake-executor-plugin-cluster-generic",
    ):
        assert re.search(rf"^{name}==", lock, re.MULTILINE), name


@pytest.fixture(scope="module")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root directory of a bare Debian 12, without this machine's packages."""
    need("debootstrap", "setpriv and unshare")
    require(os.geteuid() == 0, "root, to make a root directory: run the tests as root")
    root = tmp_path_factory.mktemp("debian")
    subprocess.run(
        ["debootstrap", "--variant=minbase", "bookworm", root], check=True, capture_output=True, timeout=HANG_S
    )
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    return root


def run_in(root: Path, environment: dict[str, str], command: str) -> str:
    """Run a shell command in a root directory, with /proc, and this machine's certificates and wheels at their paths."""
    shared = [
        Path(text) for name in ("PIP_CERT", "PIP_FIND_LINKS") if (text := os.environ.get(name, "")).startswith("/")
    ]
    mounts = [f"mount -t proc proc {shlex.quote(str(root / 'proc'))}"]
    for path in shared:
        inside = root / str(path).lstrip("/")
        if path.is_dir():
            inside.mkdir(parents=True, exist_ok=True)
            mounts.append(f"mount --bind {shlex.quote(str(path))} {shlex.quote(str(inside))}")
        else:
            inside.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, inside)
    enter = f"exec env -i {shlex.join(f'{name}={value}' for name, value in environment.items())} chroot {shlex.quote(str(root))}"
    script = " && ".join([*mounts, f"{enter} /bin/sh -c {shlex.quote(command)}"])
    done = subprocess.run(["unshare", "--mount", "sh", "-c", script], capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.mark.soak
@pytest.mark.parametrize("stage", ["android"])
def test_its_instructions_install_tvmake_in_a_bare_debian_and_it_makes_a_package(
    debian: Path, stage: str, tmp_path: Path
):
    environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
    environment |= {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    context = tmp_path / "context"
    (context / "envs").mkdir(parents=True)
    for name in ("image.sh", "image.lock"):
        shutil.copy(ROOT / "envs" / name, context / "envs" / name)
    subprocess.run(
        [shutil.which("python3") or "python3", "-m", "pip", "wheel", "-q", "--no-deps", "-w", context / "dist", ROOT],
        check=True,
    )
    for instruction, text in stages()[stage]:
        if instruction == "ENV":
            environment |= dict([text.split("=", 1)])
        elif instruction == "ARG":
            environment = dict([text.split("=", 1)]) | environment
        elif instruction == "COPY":
            *sources, target = text.split()
            (debian / target.strip("/")).mkdir(parents=True, exist_ok=True)
            for source in (path for pattern in sources for path in context.glob(pattern)):
                shutil.copy(source, debian / target.strip("/"))
        elif instruction == "RUN":
            run_in(debian, environment, text)
    project = new_project(debian / "work/project")
    run_in(debian, environment, "cd /work/project && tvmake make results/digits/float32/cpu/package.tar")
    assert (project.directory / "results/digits/float32/cpu/package.tar").is_file()
    made = run_in(
        debian,
        environment,
        "cd /work/project && tvmake compile digits.onnx --target aarch64-linux-android -o phone.tar",
    )
    assert "zig" not in made
    assert (project.directory / "phone.tar").is_file()
