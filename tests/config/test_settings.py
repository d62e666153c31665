"""What can be set, its default, and what cannot be."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from memory.assembly import build_model, open_store
from memory.config.loading import load_config
from memory.config.settings import Config
from memory.errors import ConfigError
from memory.models import PLAIN, Scale, scale_of
from memory.providers import WordLlamaEmbedder
from tests.config.files import SHIPPED, written


def test_the_shipped_file_shows_every_key_with_its_default() -> None:
    shown = yaml.safe_load(SHIPPED.read_text(encoding="utf-8"))
    assert shown == Config().model_dump(mode="json")
    assert load_config(SHIPPED, {}).memory.model_dump(exclude={"data_dir"}) == (
        Config().memory.model_dump(exclude={"data_dir"})
    )


def test_the_seeds_keys_have_the_seeds_defaults() -> None:
    memory = Config().memory
    assert memory.dedup_enabled is True
    assert (memory.dedup_upper_threshold, memory.dedup_lower_threshold) == (0.95, 0.90)


@pytest.mark.parametrize(
    ("set_to", "scale"),
    [
        ("null", scale_of("wordllama-")),
        ("plain", PLAIN),
        ("{anchor: 0.8}", Scale(anchor=0.8)),
        ("{anchor: 0.8, anchor_kana_han: 0.9}", Scale(anchor=0.8, anchor_kana_han=0.9)),
    ],
)
@pytest.mark.parametrize("by", ["file", "variable"])
def test_the_scale_is_the_embedders_own_plain_or_given_by_its_anchors(
    tmp_path: Path, set_to: str, scale: Scale, by: str
) -> None:
    file = written(
        tmp_path, f"memory: {{embedding: {{scale: {set_to if by == 'file' else 'null'}}}}}"
    )
    environ = {"MEMORY_EMBEDDING_SCALE": set_to} if by == "variable" else {}
    config = load_config(file, environ)
    assert config.memory.scale_for(WordLlamaEmbedder().fingerprint) == scale


@pytest.mark.parametrize("key", ["dedup_upper_threshold: 0.97", "dedup_lower_threshold: 0.8"])
def test_thresholds_without_a_scale_stay_on_the_cosine_with_one_warning(
    tmp_path: Path, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    config = load_config(written(tmp_path, f"memory: {{{key}}}"), {})
    with open_store(config) as store:
        assert store.scale == PLAIN
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "memory.embedding.scale" in caplog.text


@pytest.mark.parametrize("scale", ["plain", "{anchor: 0.8}"])
def test_thresholds_with_a_scale_are_on_that_scale_and_nobody_is_warned(
    tmp_path: Path, scale: str, caplog: pytest.LogCaptureFixture
) -> None:
    text = f"memory: {{dedup_lower_threshold: 0.85, embedding: {{scale: {scale}}}}}"
    config = load_config(written(tmp_path, text), {})
    with open_store(config) as store:
        assert (store.scale == PLAIN) == (scale == "plain")
    assert not caplog.records


@pytest.mark.parametrize("scale", ["steep", "{anchor: 0.96}", "{anchor: 0.8, kana: 0.9}", "0.8"])
def test_a_scale_that_cannot_be_is_named_with_file_and_line(tmp_path: Path, scale: str) -> None:
    path = written(tmp_path, f"memory:\n  embedding:\n    scale: {scale}\n")
    with pytest.raises(ConfigError, match=r"config\.yaml:3.*memory\.embedding\.scale"):
        load_config(path, {})


@pytest.mark.parametrize("url", ["localhost:11434/v1", "api.openai.com", "ftp://x", "http://"])
def test_a_server_is_named_with_its_scheme(tmp_path: Path, url: str) -> None:
    with pytest.raises(ConfigError, match=r"config.yaml:2: llm.base_url: .* write http://HOST"):
        load_config(written(tmp_path, f"llm:\n  base_url: '{url}'\n"), {})
    with pytest.raises(
        ConfigError, match=r"MEMORY_EMBEDDING_BASE_URL: .* is not the URL of a server"
    ):
        load_config(None, {"MEMORY_EMBEDDING_BASE_URL": url})
    named = load_config(
        None, {"OPENAI_BASE_URL": url}, {"llm_provider": "openai", "llm_model": "m"}
    )
    with pytest.raises(ConfigError, match=r"OPENAI_BASE_URL: .* is not the URL of a server"):
        build_model(named)


@pytest.mark.parametrize("section", ["llm", "memory.embedding"])
def test_a_provider_is_known_or_a_factory(tmp_path: Path, section: str) -> None:
    def with_provider(name: str) -> Config:
        text = f"{{provider: '{name}'}}"
        inner = f"llm: {text}" if section == "llm" else f"memory: {{embedding: {text}}}"
        return load_config(written(tmp_path, inner), {})

    with_provider("my.bots:make_it")
    with pytest.raises(ConfigError, match=f"{section}.provider: 'nonsense' is none of"):
        with_provider("nonsense")


def test_a_time_zone_says_which_day_today_is(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, "memory: {timezone: Asia/Tokyo}"), {})
    with open_store(config) as store:
        assert store.now().utcoffset() == timedelta(hours=9)
        assert store.clock().utcoffset() == timedelta(0)
        assert store.new_memory("Mia flies today.").said is not None


@pytest.mark.parametrize("name", ["Tokyo", "Europe", "../etc/passwd", "''"])
def test_an_unknown_time_zone_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=r"memory\.timezone: .* is no known time zone"):
        load_config(written(tmp_path, f"memory: {{timezone: {name}}}"), {})
