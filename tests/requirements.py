"""What a test needs of the machine: missing on a user's machine it is a skip, in CI a failure."""

import os

import pytest


def require(condition: object, hint: str) -> None:
    """Skip the test unless ``condition`` holds; with CI=true fail it, so that nothing goes untested unseen.

    Args:
        hint: what is needed, for the one who reads the message.
    """
    if condition:
        return
    if os.environ.get("CI", "").lower() in ("1", "true", "yes"):
        pytest.fail(f"needs {hint}", pytrace=False)
    pytest.skip(f"needs {hint}")
