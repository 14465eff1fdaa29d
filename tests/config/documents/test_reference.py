"""Compare the config's pages with the config models."""

import re
from pathlib import Path

import pytest
import yaml

from tvmake.config.documents.reference import reference
from tvmake.config.reading.load import check
from tvmake.config.root import Config
from tvmake.stages.registry import patterns

DOCS = Path(__file__).resolve().parents[3] / "docs"


def config_examples() -> list[str]:
    blocks = re.findall(r"```yaml\n(.*?)```", (DOCS / "guides/config.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    return [block for block in blocks if isinstance(yaml.safe_load(block), dict)]


def test_the_reference_page_is_up_to_date():
    page = (DOCS / "reference/config-reference.md").read_text(encoding="utf-8")
    assert page == reference(), "run: python -m tvmake.config.documents.reference > docs/reference/config-reference.md"


def test_every_top_level_key_has_a_row():
    assert all(f"| `{key}` |" in reference() for key in Config.model_fields)


def test_every_link_of_the_reference_leads_to_a_heading():
    page = reference()
    headings = {
        re.sub(r"[^\w-]", "", heading.lower().replace(" ", "-"))
        for heading in re.findall(r"^## (.*)$", page, flags=re.MULTILINE)
    }
    assert set(re.findall(r"\]\(#([^)]*)\)", page)) <= headings


@pytest.mark.parametrize("example", config_examples())
def test_every_example_in_the_page_loads(example):
    values = yaml.safe_load(example)
    values.setdefault("models", {"net": {"source": "net.onnx"}})
    if "precision: float16" in example:
        values.setdefault("precisions", ["float32", "float16"])
    check(values, {})


def test_the_page_shows_every_file_of_a_run():
    page = (DOCS / "guides/config.md").read_text(encoding="utf-8")
    assert [file for file in (Path(pattern).name for pattern in patterns().values()) if file not in page] == []
