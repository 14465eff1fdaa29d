import base64
import hashlib
import re
from html.parser import HTMLParser

from tvmake.config.validation import Goals
from tvmake.stages.results.report import report
from tvmake.stages.results.select import select

EVIL = '<script>alert("1")</script>'


class Page(HTMLParser):
    """Collects what a browser would fetch or run, and the visible text."""

    def __init__(self, text):
        super().__init__()
        self.scripts, self.fetched, self.words, self.open = 0, [], [], []
        self.feed(text)
        self.close()

    VOID = ("meta", "br", "link", "img", "input", "hr")

    def handle_starttag(self, tag, attrs):
        self.scripts += tag == "script"
        self.fetched += [value for name, value in attrs if name in ("src", "srcset", "data") and value]
        self.fetched += [value for name, value in attrs if tag in ("link", "use", "image") and name.endswith("href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def page_of(run):
    run.report()
    return run.file("index.html").read_text()


def test_the_page_is_well_formed_and_fetches_nothing(run):
    run.add(kernels=[("conv2d", 3.0), ("dense", 1.0)])
    run.add(precision="float16", error=0.5, goals=Goals(sqnr_db=40.0))
    run.add(target="phone", device=None)
    text = page_of(run)
    page = Page(text)
    assert page.open == []
    assert page.fetched == []
    assert not re.search(r"url\(|@import|https?://(?!www\.w3\.org/)", text)
    assert "default-src 'none'" in text


def test_names_from_outside_are_escaped_everywhere(run):
    run.add(model="a&b", output=EVIL, soc=EVIL, kernels=[(EVIL, 1.0)], error=1.0)
    text = page_of(run)
    assert EVIL not in text
    assert Page(text).scripts == 1
    assert text.count("&lt;script&gt;") >= 3


def test_the_only_script_is_the_one_that_the_policy_names(run):
    run.add()
    text = page_of(run)
    script = re.search(r"<script>(.*?)</script>", text, re.DOTALL).group(1)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in text


def test_missed_goals_and_profiled_kernels_are_shown(run):
    run.add(error=0.5, goals=Goals(sqnr_db=40.0), kernels=[("fused_conv2d", 3.0), ("dense", 1.0)])
    words = " ".join(Page(page_of(run)).words)
    assert "Goals missed" in words
    assert "sqnr_db of logits" in words
    assert "fused_conv2d" in words
    assert "75.0 %" in words


def test_the_share_of_time_that_records_cover_and_why_kernels_are_missing_are_shown(run):
    run.add(tuned=3, tunable=4)
    words = " ".join(Page(page_of(run)).words)
    assert "partly (3/4, 75 % of time)" in words
    assert "75.0 % of the tunable kernels' time, estimated by operations" in words
    assert "kernel_3: it was not tuned" in words


def test_a_run_that_only_compiled_has_a_page_without_chart(run):
    run.add(target="phone", device=None)
    text = page_of(run)
    assert "<svg" not in text
    assert "not run" in text


def test_every_model_has_its_panel_of_bars(run):
    run.add(model="digits")
    run.add(model="resnet", samples_ms=[100.0, 101.0, 102.0])
    figures = re.findall(r"<figure data-group><h3>(\w+)</h3>", page_of(run))
    assert figures == ["digits", "resnet"]


def test_a_style_too_is_only_the_one_that_the_policy_names(run):
    run.add(kernels=[("conv2d", 3.0)], curve=[(1, 0.5)], tuned=1)
    text = page_of(run)
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL).group(1)
    assert f"style-src 'sha256-{base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()}'" in text
    assert " style=" not in text


def test_the_heading_is_the_config_s_title_or_else_the_directory_s_name(run, tmp_path, monkeypatch):
    run.add()
    files = [run.file(name) for name in ("summary.json", "summary.csv", "index.html")]
    (tmp_path / "phone-models").mkdir()
    monkeypatch.chdir(tmp_path / "phone-models")
    select(run.request, run.file("selection.json"), run.file("best"))
    report(run.request, run.file("selection.json"), *files)
    assert "<title>phone-models</title>" in run.file("index.html").read_text()
    report(run.request.model_copy(update={"title": "Models & phones"}), run.file("selection.json"), *files)
    assert "<h1>Models &amp; phones</h1>" in run.file("index.html").read_text()
