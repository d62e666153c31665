"""Configuration: every key shown, every mistake one line that names file, line, key and remedy."""

from __future__ import annotations

from pathlib import Path

import platformdirs
import pytest
import yaml

from memory.assembly import build_model, build_scale
from memory.config import Config, configured, load_config
from memory.errors import ConfigError
from memory.models import PLAIN, Scale, scale_of
from memory.providers import WordLlamaEmbedder

SHIPPED = Path(__file__).parent.parent / "config.yaml"


def written(folder: Path, text: str) -> Path:
    path = folder / "config.yaml"
    path.write_text(text, encoding="utf-8")
    return path


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


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, "memory:\n  data_dir: store\n"), {})
    assert config.memory.data_dir == str(tmp_path / "store")
    assert config.memory.effective_ledger_url == f"sqlite:///{tmp_path / 'store' / 'ledger.db'}"


def test_a_ledger_file_too_is_relative_to_the_file(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, "memory:\n  ledger_url: sqlite:///other/l.db\n"), {})
    assert config.memory.effective_ledger_url == f"sqlite:///{tmp_path / 'other' / 'l.db'}"


def test_the_workspace_is_relative_to_the_file_and_can_be_set_by_a_variable(tmp_path: Path) -> None:
    file = written(tmp_path, "agent:\n  workspace_dir: notes\n")
    assert load_config(file, {}).agent.workspace_dir == str(tmp_path / "notes")
    given = {"MEMORY_AGENT_WORKSPACE_DIR": "other", "MEMORY_AGENT_USER": "Mia"}
    agent = load_config(file, given).agent
    assert (agent.workspace_dir, agent.user) == (str(tmp_path / "other"), "Mia")


def test_the_key_comes_from_the_environment_and_is_never_shown() -> None:
    config = load_config(SHIPPED, {"GEMINI_API_KEY": "first", "GOOGLE_API_KEY": "second"})
    assert config.api_key is not None
    assert config.api_key.get_secret_value() == "first"
    assert "first" not in repr(config) + config.model_dump_json()


def test_what_the_environment_alone_says_is_kept_when_settings_are_laid_on_top() -> None:
    environ = {"OPENAI_API_KEY": "third", "OPENAI_BASE_URL": "http://localhost:1234/v1"}
    config = configured(load_config(SHIPPED, environ), {"llm_model": "m"})
    assert config.openai_key is not None
    assert config.openai_key.get_secret_value() == "third"
    assert config.openai_url == "http://localhost:1234/v1"
    assert "third" not in repr(config) + config.model_dump_json()


def test_without_a_file_the_data_live_where_the_platform_keeps_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    expected = str(platformdirs.user_data_path("memory-dedup"))
    assert load_config(None, {}).memory.data_dir == expected
    assert load_config(None, {"MEMORY_DATA_DIR": "here"}).memory.data_dir == str(tmp_path / "here")


def test_the_environment_overrides_single_keys(tmp_path: Path) -> None:
    path = written(tmp_path, "memory:\n  dedup_guard: true\n")
    environ = {
        "MEMORY_DEDUP_GUARD": "false",
        "MEMORY_DEDUP_UPPER_THRESHOLD": "0.97",
        "MEMORY_DEDUP_SCOPE": "[user, category]",
        "MEMORY_CHROMA_HOST": "10.0.0.8",
        "MEMORY_LLM_MODEL": "1.5",
        "MEMORY_LIMIT": "somebody else's",
    }
    config = load_config(path, environ)
    assert config.memory.dedup_guard is False
    assert config.memory.dedup_upper_threshold == 0.97
    assert config.memory.dedup_scope == ("user", "category")
    assert (config.memory.chroma.host, config.llm.model) == ("10.0.0.8", "1.5")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "memory:\n  dedup_uper_threshold: 0.9\n",
            ":2: memory.dedup_uper_threshold: unknown key; "
            "did you mean memory.dedup_upper_threshold?",
        ),
        ("memry:\n  data_dir: x\n", ":1: memry: unknown key; did you mean memory?"),
        (
            "memory:\n  dedup_upper_threshold: high\n",
            ":2: memory.dedup_upper_threshold: input should be a valid number, not 'high'",
        ),
        (
            "memory:\n  dedup_upper_threshold: 1.5\n",
            ":2: memory.dedup_upper_threshold: input should be less than or equal to 1, not 1.5",
        ),
        (
            "memory:\n  dedup_upper_threshold: 0.8\n  dedup_lower_threshold: 0.9\n",
            ":3: memory.dedup_lower_threshold: 0.9 is above dedup_upper_threshold 0.8",
        ),
        (
            "memory:\n  dedup_upper_threshold: 0.8\n",
            ":1: memory.dedup_lower_threshold: 0.9 is above dedup_upper_threshold 0.8",
        ),
        ("memory:\n  data_dir: a\n  data_dir: b\n", ":3: memory.data_dir: is set twice"),
        ("memory: [\n", ":2: is not YAML"),
        ("memory: &a\n  chroma: *a\n", ": refers to itself"),
        ("api_key: secret\n", ":1: api_key: GEMINI_API_KEY does not belong in a file; set"),
        ("openai_key: secret\n", ":1: openai_key: OPENAI_API_KEY does not belong in a file; set"),
        ("- 1\n", ":1: must hold settings by name"),
        (
            "memory:\n  dedup_scope: [tags]\n",
            ":2: memory.dedup_scope.0: tags cannot divide memories",
        ),
    ],
)
def test_a_mistake_is_one_line_that_says_where_and_what(
    tmp_path: Path, text: str, line: str
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_config(path, {})
    assert str(caught.value).startswith(f"{path}{line}")
    assert "\n" not in str(caught.value)


def test_a_mistake_in_the_environment_names_the_variable() -> None:
    with pytest.raises(ConfigError, match=r"^MEMORY_DEDUP_CANDIDATES: memory\.dedup_candidates"):
        load_config(SHIPPED, {"MEMORY_DEDUP_CANDIDATES": "many"})


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(tmp_path / "none.yaml", {})


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
    assert build_scale(config, WordLlamaEmbedder()) == scale


@pytest.mark.parametrize("key", ["dedup_upper_threshold: 0.97", "dedup_lower_threshold: 0.8"])
def test_thresholds_without_a_scale_stay_on_the_cosine_with_one_warning(
    tmp_path: Path, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    config = load_config(written(tmp_path, f"memory: {{{key}}}"), {})
    assert build_scale(config, WordLlamaEmbedder()) == PLAIN
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "memory.embedding.scale" in caplog.text


@pytest.mark.parametrize("scale", ["plain", "{anchor: 0.8}"])
def test_thresholds_with_a_scale_are_on_that_scale_and_nobody_is_warned(
    tmp_path: Path, scale: str, caplog: pytest.LogCaptureFixture
) -> None:
    text = f"memory: {{dedup_lower_threshold: 0.85, embedding: {{scale: {scale}}}}}"
    config = load_config(written(tmp_path, text), {})
    assert (build_scale(config, WordLlamaEmbedder()) == PLAIN) == (scale == "plain")
    assert not caplog.records


@pytest.mark.parametrize("scale", ["steep", "{anchor: 0.96}", "{anchor: 0.8, kana: 0.9}", "0.8"])
def test_a_scale_that_cannot_be_is_named_with_file_and_line(tmp_path: Path, scale: str) -> None:
    path = written(tmp_path, f"memory:\n  embedding:\n    scale: {scale}\n")
    with pytest.raises(ConfigError, match=r"config\.yaml:3.*memory\.embedding\.scale"):
        load_config(path, {})


# --- what is ours, and what is another program's --------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "server:\n  port: 8000\n",
        "llm:\n  provider: openai\n  base_url: https://example.org\n",
        "memory:\n  backend: redis\n",
        "- 1\n",
    ],
)
def test_a_config_file_of_a_bot_is_neither_read_nor_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    written(tmp_path, text)
    monkeypatch.chdir(tmp_path)
    assert load_config(None, {}).llm == Config().llm
    assert load_config(None, {}).memory.data_dir == str(platformdirs.user_data_path("memory-dedup"))


@pytest.mark.parametrize(
    "text", ["memroy:\n  data_dir: here\n", "llm: {modle: m}\n", "memory: {data_folder: here}\n"]
)
def test_a_config_file_that_only_seems_another_programs_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    written(tmp_path, text)
    monkeypatch.chdir(tmp_path)
    load_config(None, {})
    assert "config.yaml is taken for another program's" in caplog.text


def test_our_sections_are_read_beside_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, "server: {port: 1}\nmemory:\n  data_dir: here\nllm: {concurrency: 2}\n")
    monkeypatch.chdir(tmp_path)
    config = load_config(None, {})
    assert (config.memory.data_dir, config.llm.concurrency) == (str(tmp_path / "here"), 2)


def test_another_tools_variables_are_not_read_and_ours_of_old_are_named_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    environ = {"LLM_PROVIDER": "openai", "LLM_BASE_URL": "https://example.org", "LLM_MODEL": "m"}
    assert load_config(SHIPPED, environ).llm == Config().llm
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "LLM_MODEL is MEMORY_LLM_MODEL now" in caplog.text


def test_settings_stand_above_the_environment_and_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, "memory: {dedup_guard: false}\nllm: {concurrency: 2}\n")
    settings = {"llm_concurrency": 3, "chroma_host": "h", "memory": {"dedup_candidates": 7}}
    config = load_config(path, {"MEMORY_LLM_CONCURRENCY": "5"}, settings)
    assert (config.llm.concurrency, config.memory.chroma.host) == (3, "h")
    assert (config.memory.dedup_guard, config.memory.dedup_candidates) == (False, 7)
    assert configured(config, {"llm_concurrency": 9}).llm.concurrency == 9


def test_a_variable_that_is_nearly_one_of_ours_is_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    names = ("MEMORY_LLM_MODLE", "MEMORY_DATADIR", "MEMORY_AGENT_TOKENS", "MEMORY_LIMIT")
    load_config(SHIPPED, dict.fromkeys(names, "x"))
    assert [record.getMessage() for record in caplog.records] == [
        "MEMORY_DATADIR is not known, and not read; did you mean MEMORY_DATA_DIR?",
        "MEMORY_LLM_MODLE is not known, and not read; did you mean MEMORY_LLM_MODEL?",
    ]


def test_an_unknown_setting_is_named() -> None:
    with pytest.raises(ConfigError, match="llm_modle: is not known; did you mean llm_model"):
        load_config(SHIPPED, {}, {"llm_modle": "x"})


@pytest.mark.parametrize("url", ["localhost:11434/v1", "api.openai.com", "ftp://x", "http://"])
def test_a_server_is_named_with_its_scheme(tmp_path: Path, url: str) -> None:
    with pytest.raises(ConfigError, match=r"config.yaml:2: llm.base_url: .* say http://HOST"):
        load_config(written(tmp_path, f"llm:\n  base_url: '{url}'\n"), {})
    with pytest.raises(ConfigError, match=r"MEMORY_EMBEDDING_BASE_URL: .* is no URL of a server"):
        load_config(None, {"MEMORY_EMBEDDING_BASE_URL": url})
    named = load_config(
        None, {"OPENAI_BASE_URL": url}, {"llm_provider": "openai", "llm_model": "m"}
    )
    with pytest.raises(ConfigError, match=r"OPENAI_BASE_URL: .* is no URL of a server"):
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
