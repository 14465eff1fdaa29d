"""A full disk is reported as such at any point; with free space the same command continues."""

import subprocess
from pathlib import Path

import pytest

from tests.workflow.project import Project, new_project

IN_NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-euc")

SCRIPT = """
mount -t tmpfs -o size=6m tmpfs {disk}
cp -r {project}/. {disk}
cd {disk}
dd if=/dev/zero of=fill bs=1k count=$(( $(df --output=avail . | tail -1) - {left} )) 2>/dev/null
tvmake make >said 2>&1 && exit 9 || true
cat said >&2
rm fill
exec tvmake make >/dev/null
"""


def unless_mounting_is_refused(directory: Path) -> None:
    """Skip a test if file systems cannot be mounted."""
    if subprocess.run(
        [*IN_NAMESPACE, f"mount -t tmpfs tmpfs {directory}"], capture_output=True, check=False
    ).returncode:
        pytest.skip("file systems cannot be mounted here")


@pytest.mark.parametrize("left", [0, *(pytest.param(left, marks=pytest.mark.soak) for left in (4, 24, 100, 250, 450))])
def test_a_full_disk_is_called_by_its_name(left: int, tmp_path: Path):
    unless_mounting_is_refused(tmp_path)
    project: Project = new_project(tmp_path / "project")
    project.edit("precisions", ["float32"])
    project.edit("benchmark.baseline", False)
    (tmp_path / "disk").mkdir()
    script = SCRIPT.format(disk=tmp_path / "disk", project=project.directory, left=left)
    script = script.replace(">said", f">{tmp_path}/said").replace("cat said", f"cat {tmp_path}/said")
    done = project.run(*IN_NAMESPACE, script)
    assert done.returncode == 0, done.stderr
    said = (tmp_path / "said").read_text()
    assert "no space left on the disk" in said
    for wrong in ("Traceback", "killed from outside", "Errno", "Logging error", "defect"):
        assert wrong not in said, said


@pytest.mark.parametrize("kilobytes", [4, pytest.param(8, marks=pytest.mark.soak)])
def test_a_full_directory_of_temporary_files_is_named_where_a_package_runs(
    demo: Project, tmp_path: Path, kilobytes: int
):
    unless_mounting_is_refused(tmp_path)
    disk = tmp_path / "disk"
    disk.mkdir()
    package = demo.directory / "results/digits/float32/cpu/package.tar"
    mounted = f"mount -t tmpfs -o size={kilobytes}k tmpfs {disk}; TMPDIR={disk} tvmake run {package} --self-test"
    done = demo.run(*IN_NAMESPACE, mounted)
    assert done.returncode == 3
    assert done.stderr.startswith(f"error: {disk}: no space left on the disk\n")
    assert "TMPDIR" in done.stderr
    assert "Traceback" not in done.stderr
