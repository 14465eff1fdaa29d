"""Functions of one package that continue each other's caches."""

from pathlib import Path

import numpy as np
import onnx
import pytest

import tvmake
from tests.codegen.caches.decoders import STATE, TOKENS, Decoder
from tests.codegen.caches.test_in_place import Source
from tests.workflow.project import Project
from tvmake.errors import InputError

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("own_home")]

PAST, PROMPT = {"max": 31}, 6


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    directory = tmp_path_factory.mktemp("states") / "project"
    directory.mkdir()
    onnx.save(Decoder().model(), directory / "decoder.onnx")
    project = Project(directory)
    functions = {
        name: {"source": "decoder.onnx", "dims": {"past": PAST, "t": rows}}
        for name, rows in (("decode", 1), ("prefill", PROMPT))
    }
    project.write_config(
        {
            "models": {"chat": {"state": STATE, "functions": functions}},
            "targets": {"cpu": {"kind": "llvm", "mcpu": "native"}},
            "validation": {"samples": 4},
        }
    )
    done = project.make()
    assert done.returncode == 0, done.stderr
    return project


def test_a_decode_continues_the_cache_of_a_prefill_of_several_tokens(project: Project):
    record = project.result("results/chat/float32/cpu/joined.json")
    assert record["notes"] == []
    assert record["shared_states"]["k0"] == ["decode", "prefill"]
    source = Source(project.directory / "decoder.onnx")
    random = np.random.default_rng(0)
    with tvmake.open(package(project)) as opened:
        session = opened.session()
        for function, rows in [("prefill", PROMPT)] * 2 + [("decode", 1)] * 4:
            ids = random.integers(0, TOKENS, (1, rows))
            np.testing.assert_allclose(session[function].run(ids)["y"], source.run(ids), atol=1e-5)


def test_a_prefill_beyond_the_cache_of_the_first_function_is_refused(project: Project):
    ids = np.zeros((1, PROMPT), "int64")
    with tvmake.open(package(project)) as opened:
        session = opened.session()
        for _ in range(5):
            session["prefill"].run(ids)
        with pytest.raises(InputError, match=r"would have 36 rows .*, and have space for 32"):
            session["prefill"].run(ids)
        session["decode"].run(ids[:, :1])


def package(project: Project) -> Path:
    return project.directory / "results/chat/float32/cpu/package.tar"
