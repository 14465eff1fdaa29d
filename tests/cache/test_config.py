"""``cache:`` in the config, and what of it reaches the steps."""

import pytest
from pydantic import ValidationError

from tvmake.cache import settings
from tvmake.config.cache import CacheConfig, as_text, from_text, size_bytes
from tvmake.config.reading.load import check
from tvmake.errors import InputError
from tvmake.plan.plan import Plan
from tvmake.stages.registry import stages

MODEL = {"models": {"digits": {"source": "digits.onnx"}}}


def config(cache):
    return check({**MODEL, "cache": cache}, {}).cache


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (None, None),
        (False, None),
        (True, CacheConfig()),
        ("/nfs/cache", CacheConfig(where="/nfs/cache")),
        ("s3://bucket/cache", CacheConfig(where="s3://bucket/cache")),
        ({"where": "c", "read_only": True}, CacheConfig(where="c", read_only=True)),
        ({"size_limit": 5_000_000}, CacheConfig(size_limit="5000000")),
    ],
)
def test_a_text_is_the_place_true_the_users_own_and_nothing_none(written, meant):
    assert config(written) == meant
    assert from_text(as_text(meant)) == meant


def test_there_is_no_cache_unless_it_is_asked_for():
    assert check(MODEL, {}).cache is None


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("10 GB", 10**10),
        ("500MiB", 500 * 2**20),
        ("1.5 kB", 1_500),
        ("2T", 2 * 10**12),
        ("7", 7),
        ("unlimited", None),
    ],
)
def test_sizes_are_written_as_people_write_them(text, meant):
    assert size_bytes(text) == meant


@pytest.mark.parametrize("text", ["many", "-1 GB", "10 GX", "", "1e9"])
def test_what_is_not_a_size_is_refused_with_an_example(text):
    with pytest.raises(InputError, match=r"cache.size_limit: expected a size such as 10 GB"):
        config({"size_limit": text})


def test_a_directory_has_a_limit_by_default_and_a_url_has_none():
    assert CacheConfig(where="/c").limit_bytes == CacheConfig(where="file:///c").limit_bytes == 10**10
    assert CacheConfig(where="s3://b/c").limit_bytes is None
    assert CacheConfig(where="s3://b/c", size_limit="1 GB").limit_bytes == 10**9
    assert CacheConfig(size_limit="unlimited").limit_bytes is None


def test_unknown_keys_and_other_types_are_refused():
    for wrong in ({"wher": "/c"}, 7, ["/c"]):
        with pytest.raises(InputError):
            config(wrong)
    with pytest.raises(ValidationError):
        from_text('{"wher": "/c"}')


def test_the_config_speaks_to_the_environment_unless_somebody_has():
    environment: dict[str, str] = {}
    settings.announce(None, environment)
    assert environment == {}
    settings.announce(CacheConfig(where="/c", read_only=True), environment)
    assert settings.configured_cache(environment) == CacheConfig(where="/c", read_only=True)
    settings.announce(CacheConfig(where="/other"), environment)
    assert settings.configured_cache(environment) == CacheConfig(where="/c", read_only=True)
    assert settings.configured_cache({"TVMAKE_CACHE": "/mine"}) == CacheConfig(where="/mine")
    assert settings.configured_cache({"TVMAKE_CACHE": "off"}) is settings.configured_cache({}) is None


def test_another_cache_changes_no_stages_options():
    plans = [Plan(check({**MODEL, "cache": cache}, {})) for cache in (None, True, {"where": "/c", "read_only": True})]
    for stage in set(stages()) - {"budget"}:
        variants = [plan.options(stage, plan.variants[0]) for plan in plans if stage not in ("export", "attest")]
        assert len(set(variants)) <= 1, stage
