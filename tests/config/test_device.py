"""How devices are described, and what is refused."""

import pytest

from tvmake.config.device import DeviceConfig, split_address
from tvmake.config.load import check
from tvmake.errors import InputError


def device(**values: object) -> DeviceConfig:
    return check({"models": {"net": {"source": "net.onnx"}}, "devices": {"phone": values}}, {}).devices["phone"]


def test_a_device_is_local_unless_it_says_otherwise():
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
        (
            {"via": "rpc"},
            "devices.phone: 'via: rpc' needs a key",
            "it is what the servers are started with (rpc_server --key), such as key: android",
        ),
        (
            {"tracker": "127.0.0.1:9190", "key": "android"},
            "devices.phone: tracker, key belong to 'via: rpc', and this device is 'via: local'",
            "write 'via: rpc', or leave them out",
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
        (
            {"via": "ssh"},
            "devices.phone: 'via: ssh' needs a host",
            "a name, address or alias of ~/.ssh/config, such as host: pi5.local",
        ),
        (
            {"via": "adb", "host": "pi5.local", "user": "pi"},
            "devices.phone: host, user belong to 'via: ssh', and this device is 'via: adb'",
            "write 'via: ssh', or leave them out",
        ),
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
def test_what_does_not_fit_is_named(values: dict[str, object], problem: str, remedy: str | None):
    with pytest.raises(InputError) as caught:
        device(**values)
    assert (caught.value.problem, caught.value.remedy) == (problem, remedy)


def test_a_key_of_the_other_transport_that_says_its_default_says_nothing():
    """The resolved config holds every key, and loads again."""
    for config in (
        DeviceConfig(threads=1),
        DeviceConfig(via="rpc", key="android"),
        DeviceConfig(via="ssh", host=["pi5.local", "10.0.0.7:2222"], user="pi"),
        DeviceConfig(via="adb", conditioning={"below_c": 40, "clocks": {"/sys/class/kgsl/kgsl-3d0/force_clk_on": "1"}}),
    ):
        assert device(**config.model_dump(mode="json", exclude_none=True)) == config


@pytest.mark.parametrize("host", ["-oProxyCommand=x", "a b", "pi@board", "host:port", "a/b", ""])
def test_a_host_is_a_name_or_an_address(host: str):
    with pytest.raises(InputError, match="host"):
        device(via="ssh", host=host)


def test_several_hosts_and_serials_are_lists():
    assert device(via="ssh", host="pi").host == ["pi"] and device(via="ssh", host=["a", "b:22"]).host == ["a", "b:22"]
    assert device(via="adb", serial=1234).serial == ["1234"] and device(via="adb", serial=["A", "B"]).serial == [
        "A",
        "B",
    ]
