"""Device addresses in text form."""

from typing import Any

import pytest

from tvmake.config.text.device import parse_device


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("ssh:board", {"via": "ssh", "host": "board"}),
        ("ssh://pi@board.local:2222", {"via": "ssh", "user": "pi", "host": "board.local:2222"}),
        ("ssh:pi@[::1]:22", {"via": "ssh", "user": "pi", "host": "[::1]:22"}),
        ("adb", {"via": "adb"}),
        ("adb:R58M123", {"via": "adb", "serial": "R58M123"}),
        ("adb:192.168.1.5:5555", {"via": "adb", "serial": "192.168.1.5:5555"}),
        ("rpc:127.0.0.1:9190/android", {"via": "rpc", "tracker": "127.0.0.1:9190", "key": "android"}),
        ("rpc:android", {"via": "rpc", "key": "android"}),
        ("ssh", {"via": "ssh"}),
        ("phone", None),
        ("adbphone", None),
        ("http://board", None),
    ],
)
def test_an_address_is_parsed_into_the_keys_of_a_device(text: str, keys: dict[str, Any] | None):
    assert parse_device(text) == keys
