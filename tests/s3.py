"""An object store for tests: moto's S3 server on the loopback address."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.requirements import need_module


@contextmanager
def s3_server(bucket: str) -> Iterator[str]:
    """The URL of an empty bucket; the environment leads clients to the server until the block ends."""
    need_module("s3fs", "pip install --group test")
    need_module("moto", "pip install --group test")
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
            patch.setenv("AWS_ACCESS_KEY_ID", "test")
            patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
            patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
            import boto3

            boto3.client("s3").create_bucket(Bucket=bucket)
            yield f"s3://{bucket}"
    finally:
        server.stop()
