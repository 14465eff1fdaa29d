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
            "devices.phone: env belongs to 'via: local', and this device is 'via: rpc'",
            "write 'via: local', or leave it out",
        ),
        (
            {"via": "rpc", "key": "two words"},
            "devices.phone.key: expected a name without spaces and colons (got 'two words')",
            None,
        ),
        ({"via": "rpc", "key": "android", "trackr": 1}, "devices.phone.trackr: unknown key", "did you mean 'tracker'?"),
        ({"via": "rcp"}, "devices.phone.via: expected one of local, rpc (got 'rcp')", "did you mean 'rpc'?"),
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
    for config in (DeviceConfig(threads=1), DeviceConfig(via="rpc", key="android")):
        assert device(**config.model_dump(mode="json", exclude_none=True)) == config
