"""The protocol's own conformance suite (npm, Node 22) against the server over HTTP."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.agent.serving import serving

pytestmark = pytest.mark.conformance

SUITE = "@modelcontextprotocol/conformance@0.1.16"
APPLY = {
    "server-initialize",
    "ping",
    "tools-list",
    "tools-call-simple-text",
    "tools-call-error",
    "dns-rebinding-protection",
}
OF_ANOTHER_SERVER = re.compile(
    # Tools of the suite's own fixture server, which answer with what no memory is.
    r"tools-call-(image|audio|embedded-resource|mixed-content|with-logging|with-progress)"
    r"|tools-call-(sampling|elicitation)|elicitation-.*|json-schema-.*"
    # Capabilities that this server does not announce.
    r"|logging-.*|completion-.*|resources-.*|prompts-.*"
    # Sessions with streams that can be taken up again: here each request stands alone.
    r"|server-sse-.*"
)


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """How the suite is called, in a Node of its own."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    folder = tmp_path_factory.mktemp("npm")
    (folder / "package.json").write_text("{}")
    wanted = [SUITE, "node@22"]
    done = subprocess.run(
        [npm, "install", "--no-audit", "--no-fund", *wanted],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    modules = folder / "node_modules"
    program = modules / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    return [str(modules / ".bin" / "node"), str(program)]


def test_every_scenario_that_applies_to_a_server_of_tools_passes(
    suite: list[str], tmp_path: Path
) -> None:
    listed = subprocess.run([*suite, "list"], capture_output=True, text=True, check=True).stdout
    known = re.findall(r"^  - (\S+)", listed.partition("Client scenarios")[0], re.MULTILINE)
    assert {name for name in known if not OF_ANOTHER_SERVER.fullmatch(name)} == APPLY
    with serving(tmp_path) as at:
        done = subprocess.run(
            [*suite, "server", "--url", f"http://{at}/mcp"],
            cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
    results = re.findall(r"^(\S) ([a-z0-9-]+): \d+ passed, (\d+) failed", done.stdout, re.MULTILINE)
    passed = {name for sign, name, failed in results if sign == "✓" and failed == "0"}
    assert passed >= APPLY, done.stdout
