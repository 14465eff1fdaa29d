"""`tvmake doctor`: it finds what is there, and survives what is not."""

import importlib
import json
import os
import socket
import sys
import threading
from importlib import metadata
from pathlib import Path

import pytest
import typer
from packaging.requirements import Requirement

from tests.device.rpc.test_tracker import UPDATE_INFO, Client, port, tracker  # noqa: F401  # fixtures
from tests.patience import HANG_S
from tvmake.cli.machine.doctor import doctor
from tvmake.doctor import compilers, devices, examine, libraries
from tvmake.doctor.check import Check, output_of
from tvmake.doctor.machine import writable
from tvmake.native.ndk import find_ndk


def named(checks: list[Check], name: str) -> Check:
    (check,) = [check for check in checks if check.name == name]
    return check


def program(directory: Path, name: str, script: str) -> None:
    """Put an executable on disk."""
    file = directory / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


@pytest.fixture
def path(tmp_path, monkeypatch):
    """A PATH that holds nothing but what a test puts there."""
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", str(directory))
    return directory


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Nothing takes too long, however busy the machine is."""
    for module in (compilers, devices, libraries):
        for name in vars(module).copy():
            if name.endswith("_TIMEOUT_S"):
                monkeypatch.setattr(module, name, HANG_S)


# --- as a whole ----------------------------------------------------------------------------------------------------


def test_the_doctor_reports_every_group_and_a_hint_for_everything_missing(capsys):
    doctor(as_json=True)
    report = json.loads(capsys.readouterr().out)
    checks = report["checks"]
    assert report["ok"]
    assert list(dict.fromkeys(check["group"] for check in checks)) == ["machine", "libraries", "compilers", "devices"]
    assert [check["name"] for check in checks if check["status"] != "ok" and not check["hint"]] == []
    assert {check["status"] for check in checks if check["required"]} == {"ok"}
    by_name = {check["name"]: check for check in checks}
    assert by_name["build and run a kernel"]["status"] == "ok"
    assert by_name["code for vulkan"]["status"] == "missing"  # the wheel is built without it


def test_something_required_that_is_missing_exits_with_3(monkeypatch, capsys):
    broken = [Check("compilers", "g++", "missing", "not installed", "apt-get install g++", required=True)]
    monkeypatch.setattr(examine.examine, "__defaults__", ((lambda: broken,),))
    with pytest.raises(typer.Exit) as caught:
        doctor(as_json=False)
    assert caught.value.exit_code == 3
    shown = capsys.readouterr().out
    assert "apt-get install g++" in shown
    assert "cannot work here yet: g++" in shown


def test_optional_things_that_are_missing_do_not_fail(monkeypatch, capsys):
    monkeypatch.setattr(examine.examine, "__defaults__", ((lambda: Check("devices", "adb", "missing", "", "get it"),),))
    doctor(as_json=False)
    assert "1 optional" in capsys.readouterr().out


def test_fix_runs_what_pip_can_mend_and_examines_again(monkeypatch, capfd):
    first = [
        Check("libraries", "torn", "problem", "broken", "pip --version", required=True),
        Check("libraries", "other", "missing", "", "pip install other"),
        Check("compilers", "g++", "missing", "", "apt-get install g++", required=True),
    ]
    results = iter([first, [Check("libraries", "torn", "ok", required=True)]])
    monkeypatch.setattr(examine.examine, "__defaults__", ((lambda: next(results),),))
    doctor(fix=True, as_json=False)
    shown = capfd.readouterr()
    assert shown.err.startswith("pip --version\npip ")
    assert "tvmake works here" in shown.out


def test_what_pip_cannot_mend_stays_broken(monkeypatch, capfd):
    hint = "pip install --no-index no-such-distribution"
    broken = [Check("libraries", "torn", "problem", "broken", hint, required=True)]
    monkeypatch.setattr(examine.examine, "__defaults__", ((lambda: broken,),))
    with pytest.raises(typer.Exit):
        doctor(fix=True, as_json=False)
    shown = capfd.readouterr()
    assert "No matching distribution found for no-such-distribution" in shown.err
    assert "cannot work here yet: torn" in shown.out


# --- libraries -----------------------------------------------------------------------------------------------------


def test_another_tvm_ffi_than_the_pinned_one_is_fatal(monkeypatch):
    version = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "0.1.15.post2" if name == "apache-tvm-ffi" else version(name))
    monkeypatch.setattr(libraries, "output_of", lambda *_: (0, ""))  # the others can be imported
    check = named(libraries.libraries(), "apache-tvm-ffi")
    assert check.is_fatal
    assert "0.1.15.post2, but tvmake needs ==0.1.14.post0" in check.detail
    assert check.hint == "pip install 'apache-tvm-ffi==0.1.14.post0'"


def test_each_library_is_named_once_with_the_smallest_extra_that_has_it(monkeypatch):
    declared = ["torch==1; extra == 'all'", "torch==1; extra == 'torch'", "torch==1; extra == 'keras'"]
    declared += ["keras; extra == 'all'", "keras; extra == 'keras'", "jax; extra == 'all'", "jax; extra == 'stablehlo'"]
    monkeypatch.setattr(metadata, "requires", lambda _: declared)
    monkeypatch.setattr(metadata, "version", lambda name: (_ for _ in ()).throw(metadata.PackageNotFoundError(name)))
    hints = {check.name: check.hint for check in libraries.libraries()}
    assert hints == {
        "jax": "pip install 'tvmake[stablehlo]'",
        "keras": "pip install 'tvmake[keras]'",
        "torch": "pip install 'tvmake[torch]'",
    }
    assert len(libraries.libraries()) == len(hints)


def test_a_library_of_an_extra_may_be_missing():
    check = libraries._library(Requirement("no-such-distribution>=1"), "torch")
    assert (check.status, check.is_fatal, check.hint) == ("missing", False, "pip install 'tvmake[torch]'")


def test_a_local_version_counts_as_the_pinned_one():
    plain = metadata.version("numpy")
    assert libraries._library(Requirement(f"numpy=={plain}"), "").status == "ok"


def test_a_library_that_cannot_be_imported_is_a_problem(monkeypatch):
    monkeypatch.setitem(libraries.IMPORT_NAMES, "numpy", "numpy.no_such_module")
    check = libraries._library(Requirement("numpy"), "")
    assert check.status == "problem"
    assert "ModuleNotFoundError" in check.detail
    assert check.hint == f"pip install --force-reinstall --no-deps 'numpy=={metadata.version('numpy')}'"


@pytest.mark.parametrize(
    "refusal",
    ["PermissionError: [Errno 13] Permission denied: '{}'", "ImportError: {}: cannot open: Permission denied"],
)
def test_a_library_that_may_not_be_read_is_no_case_for_pip(monkeypatch, tmp_path, refusal):
    file = tmp_path / "part.so"
    file.touch(mode=0)
    output = f"Traceback (most recent call last):\n{refusal.format(file)}\n"
    monkeypatch.setattr(libraries, "output_of", lambda *_: (1, output))
    monkeypatch.setattr(os, "access", lambda path, *_, **__: Path(path) != file)
    check = libraries._library(Requirement("onnx"), "")
    assert check.hint == f"its mode is ----------: chmod u+rw {file}"


# --- compilers -----------------------------------------------------------------------------------------------------


def test_a_tvm_that_kills_the_process_is_reported(monkeypatch, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\nif 'tvmake.doctor.compiler_probe' in sys.orig_argv: os.abort()\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (check,) = compilers.tvm()
    assert check.is_fatal
    assert check.detail == "crashed with SIGABRT"
    assert "apache-tvm-ffi==" in check.hint


def test_without_a_linker_kernels_compile_but_do_not_run(path):
    checks = compilers.tvm()
    assert named(checks, "code for llvm").status == "ok"
    assert named(checks, "build and run a kernel").is_fatal
    assert named(compilers.drivers(), "g++").is_fatal


def test_a_compiler_that_does_not_run_is_a_problem(path):
    program(path, "clang++", "echo 'clang++: error while loading shared libraries' >&2; exit 127")
    check = named(compilers.drivers(), "clang++")
    assert check.status == "problem"
    assert "error while loading shared libraries" in check.detail


def test_a_compiler_tells_its_version(path):
    program(path, "aarch64-linux-gnu-g++", "echo 'aarch64-linux-gnu-g++ (Debian) 12.2.0'")
    check = named(compilers.drivers(), "aarch64-linux-gnu-g++")
    assert check.status == "ok"
    assert "12.2.0" in check.detail


def test_the_ndk_is_found_through_its_variable(tmp_path):
    tools = tmp_path / "toolchains/llvm/prebuilt/linux-x86_64/bin"
    tools.mkdir(parents=True)
    for level in (24, 34):
        (tools / f"aarch64-linux-android{level}-clang++").touch()
    (tmp_path / "source.properties").write_text("Pkg.Desc = Android NDK\nPkg.Revision = 27.2.12479018\n")
    check = compilers.android_ndk({"ANDROID_NDK_HOME": str(tmp_path)})
    assert check.status == "ok"
    assert check.detail.startswith("27.2.12479018, 2 API levels")


def test_of_the_ndks_of_an_sdk_the_newest_counts(tmp_path):
    for version in ("9.0.1", "27.1.2"):
        (tmp_path / "ndk" / version).mkdir(parents=True)
    assert find_ndk({"ANDROID_HOME": str(tmp_path)}) == (tmp_path / "ndk/27.1.2", "ANDROID_HOME")


@pytest.mark.parametrize(("variables", "status"), [({}, "missing"), ({"ANDROID_NDK_ROOT": "/nowhere"}, "problem")])
def test_an_ndk_that_is_not_there_gets_a_hint(variables, status):
    check = compilers.android_ndk(variables)
    assert check.status == status
    assert "ANDROID_NDK_HOME" in check.hint


def test_a_command_that_hangs_is_left_behind():
    code, _ = output_of(["sleep", "30"], timeout_s=0.2)
    assert code == 124


# --- devices -------------------------------------------------------------------------------------------------------


def test_a_loader_that_is_not_a_opencl_library_is_a_problem(tmp_path):
    library = tmp_path / "libOpenCL.so"
    library.write_bytes(b"not a library")
    (check,) = devices.opencl(str(library))
    assert check.status == "problem"
    assert str(library) in check.detail


def test_without_adb_there_is_a_hint(path):
    (check,) = devices.adb()
    assert (check.status, check.hint) == ("missing", "apt-get install adb")


def test_adb_that_hangs_is_a_problem(path, monkeypatch):
    monkeypatch.setattr(devices, "ADB_TIMEOUT_S", 0.2)
    program(path, "adb", "exec /bin/sleep 30")
    (check,) = devices.adb()
    assert (check.status, check.detail) == ("problem", "takes too long")


def test_adb_devices_are_listed_with_their_state(path):
    lines = [
        "* daemon started successfully",
        "List of devices attached",
        "0a1b2c3d               device usb:1-1 product:kona model:SM8250 device:kona transport_id:1",
        "emulator-5554          unauthorized transport_id:2",
        "",
    ]
    program(path, "adb", "\n".join(f"echo '{line}'" for line in lines))
    good, bad = devices.adb()
    assert (good.name, good.status) == ("adb 0a1b2c3d", "ok")
    assert "model:SM8250" in good.detail
    assert (bad.name, bad.status) == ("adb emulator-5554", "problem")
    assert "accept the key" in bad.hint


def test_adb_without_a_device_says_so(path):
    program(path, "adb", "echo 'List of devices attached'; echo")
    (check,) = devices.adb()
    assert check.detail == "installed, no device connected"


def test_a_tracker_is_asked_for_its_servers(port: int):  # noqa: F811
    server = Client(port)
    assert server.ask([UPDATE_INFO, {"key": "server:phone", "addr": [None, 9091]}]) == 0
    check = devices.tracker({"TVM_TRACKER_HOST": "127.0.0.1", "TVM_TRACKER_PORT": str(port)})
    assert check.status == "ok"
    assert check.detail.endswith("servers phone: 1")


def answering(reply: bytes) -> int:
    """A server on this machine that answers one connection with ``reply`` and hangs up; returns its port."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = server.accept()
        connection.recv(64)
        connection.sendall(reply)
        connection.close()
        server.close()

    threading.Thread(target=serve, daemon=True).start()
    return server.getsockname()[1]


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\x71\xf2\x02\x00\xff\xff\xff\x7f",
        b"\x71\xf2\x02\x00\x02\x00\x00\x00[]",
    ],
)
def test_another_service_at_the_trackers_port_is_distinguished(reply):
    check = devices.tracker({"TVM_TRACKER_HOST": "127.0.0.1", "TVM_TRACKER_PORT": str(answering(reply))})
    assert check.status == "problem"


@pytest.mark.parametrize("value", ["", "x", "0", "99999", "1"])
def test_a_tracker_that_is_not_there_gets_a_hint(value):
    check = devices.tracker({"TVM_TRACKER_HOST": "127.0.0.1", "TVM_TRACKER_PORT": value})
    assert check.status != "ok"
    assert check.hint


# --- the machine ---------------------------------------------------------------------------------------------------


def test_a_place_that_can_be_made_is_writable_and_is_not_made(tmp_path):
    directory = tmp_path / "new/packages"
    assert writable("package store", directory).status == "ok"
    assert not directory.parent.exists()


def test_a_store_below_a_file_is_fatal(tmp_path):
    (tmp_path / "file").touch()
    check = writable("package store", tmp_path / "file" / "packages")
    assert check.is_fatal
    assert "TVMAKE_HOME" in check.hint


def test_a_place_that_takes_no_files_is_fatal():
    assert writable("package store", Path("/proc")).is_fatal  # not even root's


def test_the_doctors_modules_load_without_tvm():
    code = "import sys, tvmake.doctor.examine; sys.exit('tvm' in sys.modules or 'torch' in sys.modules)"
    assert output_of([sys.executable, "-c", code], 30)[0] == 0


def test_a_library_whose_files_are_gone_is_a_problem_although_it_is_installed(tmp_path, monkeypatch):
    about = tmp_path / "ghost-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: ghost\nVersion: 1.0\n")
    (about / "RECORD").write_text("ghost/__init__.py,,\n")
    monkeypatch.syspath_prepend(tmp_path)
    libraries._modules.cache_clear()
    assert not libraries._has_files("ghost")
    (tmp_path / "ghost.py").touch()
    importlib.invalidate_caches()
    assert libraries._has_files("ghost") and libraries._has_files("pyyaml")
    libraries._modules.cache_clear()
