"""Each adapter, and others' stores, beside the newest release. Needs `uv` (pip install uv).

    python scripts/frameworks.py [langgraph adk mem0 pgvector ...]     # all where none is named

For each framework an environment of its own: ours with its extra, as a user installs it. There the
example runs, and must print what its docstring says; then the tests marked `framework`; for
LangGraph its own store tests too, out of its source distribution, with our store in their place.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import textwrap
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
UPSTREAM = "langgraph-checkpoint"
MCP_CLIENTS = "tests/frameworks/test_mcp_clients.py"


@dataclass(frozen=True)
class Framework:
    """What is installed beside ours, and what is run there."""

    package: str
    example: str | None
    test: str
    more: tuple[str, ...] = ()
    extra: str = ""
    """Ours that it needs; by default the one of its name."""


FRAMEWORKS = {
    "langgraph": Framework(
        "langgraph",
        "examples/langgraph_agent.py",
        "tests/adapters/test_langgraph.py",
        ("langchain", "pytest-asyncio", "pytest-mock"),
    ),
    "adk": Framework("google-adk", "examples/adk_memory.py", "tests/adapters/test_adk.py"),
    "strands": Framework(
        "strands-agents", "examples/strands_memory.py", "tests/adapters/test_strands.py"
    ),
    "agent-framework": Framework(
        "agent-framework-core", None, "tests/adapters/test_agent_framework.py"
    ),
    "autogen": Framework("autogen-core", None, "tests/adapters/test_autogen.py"),
    "openai-agents": Framework(
        "openai-agents",
        "examples/openai_agents_memory.py",
        MCP_CLIENTS,
        ("openai-agents",),
        "agent",
    ),
    "llama-index": Framework(
        "llama-index-core",
        "examples/llamaindex_memory.py",
        MCP_CLIENTS,
        ("llama-index-core", "llama-index-tools-mcp"),
        "agent",
    ),
    "pydantic-ai": Framework(
        "pydantic-ai-slim", None, MCP_CLIENTS, ("pydantic-ai-slim[mcp]",), "agent"
    ),
    "haystack": Framework(
        "haystack-ai", None, MCP_CLIENTS, ("haystack-ai", "mcp-haystack"), "agent"
    ),
    "langgraph-stores": Framework(
        "langgraph-checkpoint-postgres",
        None,
        "tests/interchange/test_langgraph_back.py",
        ("langgraph-checkpoint-postgres", "langgraph-checkpoint-sqlite"),
        "langgraph",
    ),
    "qdrant": Framework("qdrant-client", None, "tests/interchange/test_qdrant_back.py"),
    "pgvector": Framework(
        "langchain-postgres",
        None,
        "tests/interchange/test_pgvector_back.py",
        ("langchain-postgres", "mem0ai", "psycopg[pool]"),
        "postgres",
    ),
    "recipes": Framework(
        "lancedb",
        None,
        "tests/interchange/test_recipes.py",
        ("lancedb", "sqlite-vec", "faiss-cpu", "langchain-community", "pymilvus[milvus_lite]"),
        "postgres",
    ),
    "mem0": Framework(
        "mem0ai", None, "tests/frameworks/test_mem0.py", ("mem0ai", "psycopg[pool]"), "qdrant"
    ),
}


def run(*command: str | Path, cwd: Path = ROOT, **environment: str) -> str:
    """What a command prints; the end of everything where it fails."""
    keep = {key: value for key, value in os.environ.items() if not key.endswith("_API_KEY")}
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd, env=keep | environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        told = done.stdout[-4000:] + done.stderr[-4000:]
        sys.exit(f"error: {' '.join(map(str, command))}\n{told}")
    return done.stdout


def installed(name: str, framework: Framework, folder: Path) -> Path:
    """An environment with ours and the framework; gives its interpreter."""
    python = folder / name / "bin" / "python"
    run("uv", "venv", "-q", folder / name, "--python", sys.executable)
    wanted = [
        f"{ROOT}[{framework.extra or name},postgres,servers]",
        "pytest",
        "hypothesis",
        "filelock",
        *framework.more,
    ]
    run("uv", "pip", "install", "-q", "--python", python, *wanted)
    return python


def version_of(package: str, python: Path) -> str:
    code = f"from importlib.metadata import version; print(version({package!r}))"
    return run(python, "-c", code).strip()


def check_example(example: str, python: Path, folder: Path) -> None:
    """It is run as it stands, from elsewhere, against the installed package."""
    told = ast.get_docstring(ast.parse((ROOT / example).read_text(encoding="utf-8"))) or ""
    shown = textwrap.dedent(told.partition("It prints:\n\n")[2]) + "\n"
    copy = shutil.copy(ROOT / example, folder)
    printed = run(python, copy, cwd=folder)
    if printed != shown:
        sys.exit(f"error: {example} prints\n{printed}and says that it prints\n{shown}")


def check_tests(framework: Framework, python: Path) -> str:
    options = ["-q", "-p", "no:cacheprovider", "-o", "addopts=", "-o", "filterwarnings="]
    options += ["-o", "asyncio_mode=strict"] if "pytest-asyncio" in framework.more else []
    return last_line(run(python, "-m", "pytest", *options, framework.test))


def check_upstream(python: Path, folder: Path) -> str:
    """LangGraph's own store tests of the installed version."""
    wanted = f"{UPSTREAM}=={version_of(UPSTREAM, python)}"
    run("uv", "pip", "install", "-q", "--python", python, "pip")
    fetch = ("download", "-q", "--no-deps", "--no-binary", ":all:", "-d", folder)
    run(python, "-m", "pip", *fetch, wanted)
    [archive] = folder.glob("langgraph_checkpoint-*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    source = folder / archive.name.removesuffix(".tar.gz")
    options = ("-q", "-o", "addopts=", "-o", "asyncio_mode=auto", "-p", "upstream_langgraph")
    return last_line(
        run(
            python, "-m", "pytest", *options, "tests/test_store.py",
            cwd=source, PYTHONPATH=str(ROOT / "scripts"),
        )
    )  # fmt: skip


def last_line(printed: str) -> str:
    return printed.strip().splitlines()[-1]


def main(names: list[str]) -> None:
    if shutil.which("uv") is None:
        sys.exit("error: uv is not on the PATH; pip install uv")
    for name in names:
        if name not in FRAMEWORKS:
            sys.exit(f"error: {name} is none of {', '.join(FRAMEWORKS)}")
    with ThreadPoolExecutor(2) as two_at_a_time:
        for lines in two_at_a_time.map(check, names):
            print(*lines, sep="\n", flush=True)


def check(name: str) -> list[str]:
    """Install a framework, run its example and tests; return what happened, line by line."""
    framework = FRAMEWORKS[name]
    with tempfile.TemporaryDirectory(prefix="framework-") as scratch:
        folder = Path(scratch)
        python = installed(name, framework, folder)
        lines = [f"{framework.package} {version_of(framework.package, python)}"]
        if framework.example is not None:
            check_example(framework.example, python, folder)
            lines.append(f"  {framework.example} prints what it says")
        lines.append(f"  {framework.test}: {check_tests(framework, python)}")
        if name == "langgraph":
            lines.append(f"  {UPSTREAM}'s own tests: {check_upstream(python, folder)}")
    return lines


if __name__ == "__main__":
    main(sys.argv[1:] or list(FRAMEWORKS))
