"""Device configs, and their errors."""

import pytest

from tests.device.configs import device_config
from tvmake.config.device import DeviceConfig, split_address
from tvmake.config.device_variables import VARIABLE, announce, plain
from tvmake.config.reading.load import check
from tvmake.config.requests.running import DeployRequest
from tvmake.errors import InputError, MachineError


def device(**values: object) -> DeviceConfig:
    return check({"models": {"net": {"source": "net.onnx"}}, "devices": {"phone": values}}, {}).devices["phone"]


def test_a_device_is_local_by_default():
    assert device(threads=2).via == "local"
    assert device(via="rpc", key="android").tracker is None


@pytest.mark.parametrize(
    ("text", "address"),
    [("127.0.0.1:9190", ("127.0.0.1", 9190)), ("farm.local:1", ("farm.local", 1)), ("[::1]:9190", ("::1", 9190))],
)
def test_an_address_is_host_and_port(text: str, address: tuple[str, int]):
    assert split_address(device(via="rpc", key="android", tracker=text).tracker or "") == address


@pytest.mark.parametrize(
    ("values", "problem", "remedy"),
    [
        ({"via": "rpc"}, "devices.phone.key: this key is required", None),
        ({"via": "ssh", "host": ["a", "b", "a"]}, "devices.phone.host: names a twice", "name each device once"),
        ({"via": "adb", "serial": ["A1", "A1"]}, "devices.phone.serial: names A1 twice", "name each device once"),
        (
            {"via": "adb", "directory": "~/x"},
            "devices.phone.directory: ~/ works over ssh only, for the ssh user's home directory (got '~/x')",
            "write the whole path",
        ),
        (
            {"via": "ssh", "host": "a", "directory": "~b/x"},
            "devices.phone.directory: ~/ works over ssh only, for the ssh user's home directory (got '~b/x')",
            "write the whole path",
        ),
        (
            {"via": "rpc", "key": "android", "env": {"A": "b"}},
            "devices.phone: env belongs to 'via: local', 'via: ssh' or 'via: adb', and this device is 'via: rpc'",
            "write 'via: local', 'via: ssh' or 'via: adb', or leave it out",
        ),
        (
            {"via": "rpc", "key": "two words"},
            "devices.phone.key: expected a name without spaces and colons (got 'two words')",
            None,
        ),
        ({"via": "rpc", "key": "android", "trackr": 1}, "devices.phone.trackr: unknown key", "did you mean 'tracker'?"),
        ({"via": "rcp"}, "devices.phone.via: expected one of local, rpc, ssh, adb (got 'rcp')", "did you mean 'rpc'?"),
        ({"via": "ssh"}, "devices.phone.host: this key is required", None),
        (
            {"via": "rpc", "key": "android", "conditioning": {"governor": "performance"}},
            "devices.phone: conditioning.below_c, governor and clocks do not work over 'via: rpc', whose servers write no files",
            "reach the device by ssh or adb, or leave them out",
        ),
        (
            {"via": "adb", "conditioning": {"clocks": {"/etc/passwd": "1"}}},
            "devices.phone.conditioning.clocks./etc/passwd: expected a file below /sys, such as "
            "/sys/class/kgsl/kgsl-3d0/force_clk_on (got '/etc/passwd')",
            None,
        ),
        (
            {"via": "rpc", "key": "android", "host": "pi5"},
            "devices.phone: host belongs to 'via: ssh', and this device is 'via: rpc'",
            "write 'via: ssh', or leave it out",
        ),
        (
            {"via": "ssh", "host": "pi@pi5"},
            "devices.phone.host: a host does not include the user (got 'pi@pi5')",
            "write user: pi, host: pi5",
        ),
        (
            {"via": "ssh", "host": "ssh://pi@pi5:22"},
            "devices.phone.host: a host does not include the user (got 'ssh://pi@pi5:22')",
            "write user: pi, host: pi5:22",
        ),
        (
            {"via": "ssh", "host": "ssh://pi5/"},
            "devices.phone.host: a host does not include the protocol (got 'ssh://pi5/')",
            "write host: pi5",
        ),
        (
            {"via": "ssh", "host": "pi5:99999"},
            "devices.phone.host: expected a port from 1 to 65535 (got 'pi5:99999')",
            None,
        ),
        ({"via": "ssh", "host": 622}, "devices.phone.host: expected a text (got 622)", None),
        *(
            (
                {"via": "rpc", "key": "android", "tracker": text},
                f"devices.phone.tracker: expected host:port, such as 127.0.0.1:9190 (got '{text}')",
                None,
            )
            for text in ("127.0.0.1", ":9190", "host:0", "host:65536", "a b:1", "::1:9190")
        ),
    ],
)
def test_an_invalid_device_is_refused_with_its_key(values: dict[str, object], problem: str, remedy: str | None):
    with pytest.raises(InputError) as caught:
        device(**values)
    assert (caught.value.problem, caught.value.remedy) == (problem, remedy)


def test_a_resolved_device_loads_again():
    for config in (
        device_config(threads=1),
        device_config(via="rpc", key="android"),
        device_config(via="ssh", host=["pi5.local", "10.0.0.7:2222"], user="pi"),
        device_config(
            via="adb", conditioning={"below_c": 40, "clocks": {"/sys/class/kgsl/kgsl-3d0/force_clk_on": "1"}}
        ),
    ):
        resolved = config.model_dump(mode="json")
        assert device(**resolved) == config


@pytest.mark.parametrize(
    "host", ["-oProxyCommand=x", "a b", "pi@board", "host:port", "a/b", "", "board..local", "b" * 64]
)
def test_a_host_is_a_name_or_an_address(host: str):
    with pytest.raises(InputError, match="host"):
        device(via="ssh", host=host)


def test_several_hosts_and_serials_are_lists():
    assert device(via="ssh", host="pi").host == ["pi"] and device(via="ssh", host=["a", "b:22"]).host == ["a", "b:22"]
    assert device(via="adb", serial=1234).serial == ["1234"] and device(via="adb", serial=["A", "B"]).serial == [
        "A",
        "B",
    ]


@pytest.mark.parametrize("value", [12345678, ["hunter2"], {"a": "hunter2"}])
def test_an_invalid_value_of_a_variable_is_not_shown(value: object):
    with pytest.raises(InputError) as caught:
        device(env={"TOKEN": value})
    assert "hunter2" not in str(caught.value) and "12345678" not in str(caught.value)
    assert "expected a text" in caught.value.problem


def test_values_of_variables_are_not_in_dumps_or_texts_of_a_device():
    config = device_config(env={"TOKEN": "hunter2"})
    assert config.model_dump(mode="json")["env"] == {"TOKEN": None}
    assert "hunter2" not in f"{config!r} {config} {config.model_dump()}"
    assert plain(config.env, "here") == {"TOKEN": "hunter2"}


def test_a_request_receives_the_values_of_its_workflow(monkeypatch: pytest.MonkeyPatch):
    sent = DeployRequest(device_name="board", device=device_config(env={"TOKEN": "hunter2"}))
    text = sent.model_dump_json()
    assert "hunter2" not in text
    environment: dict[str, str] = {}
    announce({"board": sent.device}, environment)
    monkeypatch.setenv(VARIABLE, environment[VARIABLE])
    received = DeployRequest.model_validate_json(text)
    assert plain(received.device.env, "here") == {"TOKEN": "hunter2"}


def test_a_variable_without_a_value_takes_that_of_the_environment_or_fails(monkeypatch: pytest.MonkeyPatch):
    config = device_config(env={"TOKEN": None})
    monkeypatch.setenv("TOKEN", "mine")
    assert plain(config.env, "here") == {"TOKEN": "mine"}
    monkeypatch.delenv("TOKEN")
    with pytest.raises(MachineError, match="has no value"):
        plain(config.env, "here")


def test_a_tracker_with_an_invalid_host_name_is_refused_without_waiting():
    with pytest.raises(ValueError, match="not a host name"):
        split_address("board..local:9190")


@pytest.mark.parametrize("written", ["~/x", "x"])
def test_a_directory_over_ssh_may_be_written_below_the_home_directory(written: str):
    assert device(via="ssh", host="a", directory=written).directory == "x"
