"""Functions of one package that continue each other's caches."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest

import tvmake
from tests.codegen.caches.decoders import STATE, TOKENS, Decoder
from tests.codegen.caches.test_in_place import Source
from tests.workflow.project import Project
from tvmake.config.requests.tuning import ExtractRequest
from tvmake.config.target import TargetConfig
from tvmake.errors import InputError
from tvmake.stages.tuning.extract import extract

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("own_home")]

PAST, PROMPT = {"max": 31}, 6


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    directory = tmp_path_factory.mktemp("states") / "project"
    directory.mkdir()
    decode, prefill = Decoder().model(), Decoder().model()
    for value in prefill.graph.input:  # an exporter names the dimensions of each file
        for extent in value.type.tensor_type.shape.dim:
            if extent.dim_param == "past":
                extent.dim_param = "rows"
    onnx.save(decode, directory / "decoder.onnx")
    onnx.save(prefill, directory / "prompt.onnx")
    project = Project(directory)
    functions = {
        "decode": {"source": "decoder.onnx", "dims": {"past": PAST, "t": 1}},
        "prefill": {"source": "prompt.onnx", "dims": {"rows": PAST, "t": PROMPT}},
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


def test_kernels_are_extracted_for_the_buffers_that_the_build_makes(project: Project, tmp_path: Path):
    decode, prefill = (
        [project.directory / f"results/chat.{name}/float32" / file for file in ("module.json", "signature.json")]
        for name in ("decode", "prefill")
    )

    def copies(*first: Path, separate: Sequence[str] = ()) -> set[str]:
        request = ExtractRequest(target_name="gpu", target=TargetConfig(kind="opencl"), separate_states=list(separate))
        listed = extract(*prefill, request, tmp_path / "tasks.json", tmp_path / "workloads", *first)
        return {task.workload for task in listed.tasks if task.names[0].startswith("cache_rows")}

    alone = copies()
    assert len(alone) == 2
    assert not alone & copies(*decode)
    assert copies(*decode, separate=["k%d", "v%d"]) == alone


def package(project: Project) -> Path:
    return project.directory / "results/chat/float32/cpu/package.tar"
