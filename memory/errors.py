"""All errors, as a tree. There is one class for each case that a caller would handle differently.

MemoryPipelineError
├── ConfigError             the configuration is wrong: correct the setting that it names
│   └── UnnamedFile         a file that nobody named sends data or runs code: ask, or name it
├── InputError              a file or an argument is wrong: correct what it names
│   └── WrongArgument       an argument of a command is wrong: correct it
├── LedgerError             the ledger cannot be read or written: nothing was changed
│   ├── LedgerMissing       there is no store at this location yet
│   ├── LedgerDamaged       the ledger's files are broken: restore a backup
│   ├── LedgerOutdated      an earlier version wrote the ledger: run `memory-dedup store upgrade`
│   └── EmbedderMismatch    another embedder made the store: run `memory-dedup store reembed`
├── LeaseLost               another process took over the conversation: stop extracting from it
├── MemoryNotFound          no live memory has this id
├── ChangedMeanwhile        another write changed the memory first: read it again
├── StillStatedBy           a live memory replaced this one: forget the live memory
├── CannotUndo              the decision cannot be undone, for the reason given
├── EmbeddingError          the embedder returned no vector for a text
├── IndexFault              the index failed: search the ledger instead, which is exact
└── ModelError              the language model gave no usable answer
    ├── ModelUnavailable    the model is unreachable or overloaded: ask the same question later
    │   ├── ModelNotAsked   the model was not asked at all
    │   │   └── CallsSpent  the run has no calls left: a later run asks
    │   └── ModelTooSlow    the model did not answer in time: a smaller question may succeed
    ├── ModelRefused        the server refused the request: another question may be accepted
    └── ModelAnswerError    the model's answer is not usable: another question may succeed
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PACKAGES = {
    "web": "starlette uvicorn",
    "agent": "mcp starlette uvicorn",
    "openai": "openai",
    "postgres": "'psycopg[binary]'",
    "qdrant": "qdrant-client",
    "langgraph": "langgraph",
    "dask": "distributed",
}


class MemoryPipelineError(Exception):
    """The base of all errors. Commands print it as one line: `error: what happened; what to do`.

    `problem` says what happened, `remedy` what to do (empty if there is no advice).

    >>> try:
    ...     memories.recall("Which pet?")
    ... except MemoryPipelineError as error:
    ...     print(error)
    recall: needs a user; give user=NAME, or everyone=True
    """

    def __init__(self, problem: str, remedy: str = "") -> None:
        super().__init__(problem, remedy)
        self.problem = problem
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.problem}; {self.remedy}" if self.remedy else self.problem


class ConfigError(MemoryPipelineError):
    """A setting is unknown, of the wrong type or out of range.

    `source`: the place where the setting was read, such as `config.yaml:7`, or the setting's name.
    `key`: the setting's name; "" if `source` is the name, or if no single setting is wrong.

    >>> from memory import load_config
    >>> load_config(settings={"dedup_upper_threshold": 2})
    Traceback (most recent call last):
        ...
    memory.errors.ConfigError: setting dedup_upper_threshold: memory.dedup_upper_threshold:...
    """

    def __init__(self, source: str, key: str, problem: str, remedy: str = "") -> None:
        super().__init__(problem, remedy)
        self.source = source
        self.key = key

    def __str__(self) -> str:
        where = f"{self.source}: {self.key}" if self.key else self.source
        return f"{where}: {super().__str__()}"


class UnnamedFile(ConfigError):
    """A file that nobody named sets a server that would get data, or a factory that would run.

    `file`: the path of the file. `target`: the host of the server, or the name of the factory.

    >>> error = UnnamedFile("config.yaml:3", "llm.base_url", Path("config.yaml"), "example.org")
    >>> error.problem, error.target
    ('sends memories and keys to example.org, but nobody named this file', 'example.org')
    """

    def __init__(self, source: str, key: str, file: Path, target: str) -> None:
        sends = key.endswith("_url")
        risk = f"sends memories and keys to {target}" if sends else f"runs the code {target}"
        variable = key.replace(".", "_").upper()
        name = variable if variable.startswith("MEMORY_") else f"MEMORY_{variable}"
        remedy = f"name the file with --config, pass its path, or set {name}"
        super().__init__(source, key, f"{risk}, but nobody named this file", remedy)
        self.file = file
        self.target = target


@contextmanager
def installed(extra: str, needed_by: object) -> Iterator[None]:
    """Run the block; if it cannot import a library, raise an error that says what to install.

    `extra`: the name of this package's extra that installs the library. `needed_by`: the command,
    the setting or the address that needs it.

    >>> try:
    ...     with installed("web", "memory-dedup review"):
    ...         import no_such_library
    ... except ConfigError as error:
    ...     print(error.source, error.problem)
    memory-dedup review no_such_library is not installed

    Raises: ConfigError if the library is not installed.
    """
    try:
        yield
    except ImportError as exc:
        library = (exc.name or extra).partition(".")[0]
        problem = f"{library} is not installed"
        raise ConfigError(str(needed_by), "", problem, install_hint(extra)) from exc


def install_hint(extra: str) -> str:
    """Return what to type to get the libraries of an extra, in a clone or anywhere else.

    >>> install_hint("qdrant")
    "pip install '.[qdrant]', or outside a clone: pip install qdrant-client"
    """
    return f"pip install '.[{extra}]', or outside a clone: pip install {_PACKAGES[extra]}"


class InputError(MemoryPipelineError):
    """A file, a value or another input cannot be used.

    `source`: the path of the file, or a name for the input. `line`: the number of the wrong line,
    from 1; None if no single line is wrong.

    >>> memories.remember(" ", user="Mia")
    Traceback (most recent call last):
        ...
    memory.errors.InputError: remember: text must be a text of 1 to 100,000 characters...
    """

    def __init__(
        self, source: Path | str, problem: str, remedy: str = "", line: int | None = None
    ) -> None:
        super().__init__(problem, remedy)
        self.source = source
        self.line = line

    def __str__(self) -> str:
        where = f"{self.source}:{self.line}" if self.line is not None else str(self.source)
        return f"{where}: {super().__str__()}"


class WrongArgument(InputError):
    """An argument of a command is wrong or does not fit the other arguments. No input was read."""


class LedgerError(MemoryPipelineError):
    """The ledger cannot be opened, read or written. The failed transaction changed nothing.

    >>> from memory.assembly import read_store
    >>> try:
    ...     with read_store(config) as opened:
    ...         opened.add(opened.new_memory("Mia rows."))
    ... except LedgerError as error:
    ...     print(error.remedy)
    make the data folder writable
    """


class LedgerMissing(LedgerError):
    """There is no ledger at the configured location yet.

    >>> from memory.assembly import read_ledger
    >>> read_ledger(config.at("nowhere"))
    Traceback (most recent call last):
        ...
    memory.errors.LedgerMissing: there are no memories at nowhere/ledger.db yet; remember...
    """


class LedgerDamaged(LedgerError):
    """The ledger's file is broken, or one of its rows cannot be read.

    >>> from memory.assembly import read_ledger
    >>> size = Path("ledger.db").write_text("This is not a database." * 50)
    >>> read_ledger(config.at("."))
    Traceback (most recent call last):
        ...
    memory.errors.LedgerDamaged: the ledger ledger.db is not a ledger; restore a backup...
    """


class LedgerOutdated(LedgerError):
    """An earlier version wrote the ledger, so the ledger must be upgraded before it is used.

    >>> LedgerOutdated("data/ledger.db", stored="8", current="9").problem
    'data/ledger.db has schema 8, this version needs 9'
    """

    def __init__(self, name: str, stored: str, current: str) -> None:
        super().__init__(
            f"{name} has schema {stored}, this version needs {current}",
            "run `memory-dedup store upgrade`: it writes a backup first",
        )


class EmbedderMismatch(LedgerError):
    """The store's vectors were made by another embedder than the configured one.

    >>> EmbedderMismatch("gemini-768", "wordllama-256").remedy
    'set memory.embedding back, or run `memory-dedup store reembed`'
    """

    def __init__(self, stored: str, configured: str) -> None:
        super().__init__(
            f"this store was made with embedder {stored!r}, but {configured!r} is configured",
            "set memory.embedding back, or run `memory-dedup store reembed`",
        )


class LeaseLost(MemoryPipelineError):
    """Another process has taken over the conversation from which memories were being extracted.

    This process must not store any more memories from the conversation.

    >>> print(LeaseLost("chat-7"))
    another process extracts 'chat-7' now
    """

    def __init__(self, conversation: str) -> None:
        super().__init__(f"another process extracts {conversation[:100]!r} now")


class MemoryNotFound(MemoryPipelineError, LookupError):
    """No live memory has the id `memory_id`.

    >>> memories.update("mem_0123456789ab", "Mia rows.")
    Traceback (most recent call last):
        ...
    memory.errors.MemoryNotFound: no live memory has the id 'mem_0123456789ab'; see...
    """

    def __init__(self, memory_id: str) -> None:
        super().__init__(
            f"no live memory has the id {memory_id[:100]!r}", "see what `recall` and `list` show"
        )
        self.memory_id = memory_id


class ChangedMeanwhile(MemoryPipelineError):
    """Another write came first, so that nothing was written. Read the memory again, then decide.

    >>> print(ChangedMeanwhile("mem_0123456789ab", "it has another text now"))
    mem_0123456789ab: it has another text now; look at it again with recall
    """

    def __init__(self, memory_id: str, problem: str) -> None:
        super().__init__(f"{memory_id}: {problem}", "look at it again with recall")
        self.memory_id = memory_id


class StillStatedBy(MemoryPipelineError):
    """A retired memory cannot be forgotten alone, because a live memory still states its text.

    `successor_id` is the id of the live memory. Forgetting the live memory erases both.

    >>> older = memories.remember("Mia rows.", user="Mia").memory
    >>> newer = memories.remember("Mia rows!", user="Mia").memory
    >>> try:
    ...     memories.forget(older.id)
    ... except StillStatedBy as error:
    ...     print(error.successor_id == newer.id)
    True
    """

    def __init__(self, memory_id: str, successor_id: str) -> None:
        super().__init__(
            f"{memory_id} lives on in {successor_id}", f"forget {successor_id} to erase both"
        )
        self.successor_id = successor_id


class CannotUndo(MemoryPipelineError):
    """A decision, or those of a run (one batch or import) or of a memory, cannot be undone.

    >>> memories.undo(999)
    Traceback (most recent call last):
        ...
    memory.errors.CannotUndo: decision 999 cannot be undone: there is no such decision; see...
    """

    def __init__(
        self, target: int | str, problem: str, remedy: str = "see `memory-dedup history`"
    ) -> None:
        what = f"decision {target}" if isinstance(target, int) else repr(target[:100])
        super().__init__(f"{what} cannot be undone: {problem}", remedy)


class EmbeddingError(MemoryPipelineError):
    """The embedder failed, or did not return one unit vector for each text."""


class IndexFault(MemoryPipelineError):
    """The vector index failed. The caller then compares with all vectors in the ledger instead."""


class ModelError(MemoryPipelineError):
    """The language model failed, or its answer is not usable.

    `calls`, `input_tokens` and `output_tokens` count what the question cost; 0 if unknown.

    >>> error = ModelAnswerError("the answer is cut off")
    >>> error.calls, error.input_tokens = 1, 900
    >>> Usage.of_failure(error)
    Usage(calls=1, input_tokens=900, failed=1)
    """

    calls = 0
    input_tokens = 0
    output_tokens = 0


class ModelUnavailable(ModelError):
    """The model cannot answer now: no connection, a time-out, or an overloaded server.

    `retry_after_s`: how many seconds the server asked to wait; None if it did not say.

    >>> [issubclass(kind, ModelUnavailable) for kind in (CallsSpent, ModelTooSlow, ModelRefused)]
    [True, True, False]
    """

    def __init__(self, problem: str, remedy: str = "", retry_after_s: float | None = None) -> None:
        super().__init__(problem, remedy)
        self.retry_after_s = retry_after_s


class ModelNotAsked(ModelUnavailable):
    """The model was not asked: earlier questions had failed, or the run has no calls left."""


class CallsSpent(ModelNotAsked):
    """The run has made all the model calls that it may make. A later run can ask the question."""


class ModelTooSlow(ModelUnavailable):
    """The model did not answer within the time limit; a smaller question may succeed."""


class ModelRefused(ModelError):
    """The server refused the request because of its content, size or form."""


class ModelAnswerError(ModelError):
    """The model's answer is blocked, cut off, empty or malformed.

    `may_pass` says whether the same question may succeed if it is asked again.

    >>> blocked, cut_off = ModelAnswerError("blocked"), ModelAnswerError("cut off", may_pass=True)
    >>> blocked.may_pass, cut_off.may_pass
    (False, True)
    """

    def __init__(self, problem: str, remedy: str = "", *, may_pass: bool = False) -> None:
        super().__init__(problem, remedy)
        self.may_pass = may_pass
