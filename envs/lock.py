"""Write the lock files: ``make lock``.

``requirements.lock`` is what the demo installs, ``test.lock`` adds what the tests, the linters and the docs need, at
the same versions. ``image.lock`` is what the image installs. ``cluster.lock`` is what the tests of clusters need beside that. All hold every file's sha256 for
all platforms. PyPI's torch for Linux is the CUDA build; where pip is configured to find the CPU build of the same
version (``torch-2.13.0+cpu``), that file's hash is added, so that either installs.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TORCH = "torch==2.13.0"
COMMAND = [
    "uv",
    "pip",
    "compile",
    "pyproject.toml",
    "--universal",
    "--python-version",
    "3.11",
    "--generate-hashes",
    "--no-annotate",
    "--quiet",
]
COMMON = ["--extra", "torch", "--extra", "tflite", "--group", "pyproject.toml:build"]


def compile_lock(output: str, *arguments: str) -> None:
    """Resolve to ``output``, keeping the versions that are in it already where they still fit."""
    command = [*COMMAND, *COMMON, *arguments, "--custom-compile-command", "make lock", "--output-file", output]
    subprocess.run(command, check=True, cwd=ROOT)


def compile_beside(output: str, group: str, beside: str) -> None:
    """Resolve what a group needs in addition to another lock, which is installed first, to ``output``."""
    there = set(names((ROOT / beside).read_text()))
    with tempfile.NamedTemporaryFile("r", suffix=".lock") as whole:
        command = [*COMMAND, "--group", f"pyproject.toml:{group}", "--constraint", beside, "--no-header"]
        subprocess.run([*command, "--output-file", whole.name], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
        entries = re.split(r"^(?=\S)", Path(whole.name).read_text(), flags=re.MULTILINE)
    kept = [entry for entry in entries if not there.issuperset(names(entry))]
    (ROOT / output).write_text(
        f"# What tests/{group} needs in addition to {Path(beside).name}, which comes first.\n{''.join(kept)}"
    )


def names(lock: str) -> list[str]:
    """The packages of a lock."""
    return re.findall(r"^([\w.-]+)==", lock, flags=re.MULTILINE)


def cpu_torch_hash() -> str | None:
    """sha256 of the torch file that pip chooses here, which may be a CPU build."""
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", directory, TORCH]
        subprocess.run(command, check=True)
        (file,) = Path(directory).iterdir()
        if "+cpu" not in file.name:
            return None
        printed = subprocess.run(
            [sys.executable, "-m", "pip", "hash", file], check=True, capture_output=True, text=True
        )
        return printed.stdout.strip().rpartition("--hash=")[2]


def add_hash(lock: Path, digest: str) -> None:
    """Give torch's entry one more accepted hash."""
    text = lock.read_text()
    if digest not in text:
        lock.write_text(
            re.sub(rf"^{re.escape(TORCH)} \\\n", f"{TORCH} \\\\\n    --hash={digest} \\\\\n", text, count=1, flags=re.M)
        )


def main() -> None:
    """Resolve both locks; the demo's is constrained to the tests' versions."""
    groups = [f"--group=pyproject.toml:{name}" for name in ("test", "lint", "docs")]
    compile_lock("envs/test.lock", *groups)
    compile_lock("envs/requirements.lock", "--constraint", "envs/test.lock")
    image = ["--extra=all", "--extra=cluster", "--group=pyproject.toml:cuda"]
    compile_lock("envs/image.lock", *image, "--constraint", "envs/test.lock")
    compile_beside("envs/cluster.lock", "cluster", "envs/test.lock")
    if digest := cpu_torch_hash():
        for name in ("test.lock", "requirements.lock", "image.lock"):
            add_hash(ROOT / "envs" / name, digest)


if __name__ == "__main__":
    main()
