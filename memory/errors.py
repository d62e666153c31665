"""All errors, as a tree; a caller would handle each class differently.

MemoryPipelineError
├── ConfigError            the configuration is wrong: fix the named key
├── InputError             a file or argument is wrong: fix what it names
│   └── WrongArgument      the arguments of a command are wrong: give others
├── LedgerError            the record cannot be read or written: nothing was changed
│   ├── LedgerMissing      there is no store here yet
│   ├── LedgerDamaged      its files are broken: restore a backup
│   ├── LedgerOutdated     an earlier version wrote it: `memory-dedup upgrade`
│   └── EmbedderMismatch   the store was made with another embedder: `memory-dedup reembed`
├── LeaseLost              another process does this work now: leave it
├── MemoryNotFound         no live memory has this id
├── StillStatedBy          another memory contains it: forget that one
├── CannotUndo             the decision stays, for the reason that it names
├── EmbeddingError         the embedder gave no vector for a text
├── IndexFault             the index failed; the ledger still answers exactly
│   └── ForeignIndex       the index belongs to another store: leave it
└── ModelError             the language model gave no usable answer
    ├── ModelUnavailable   it could not be reached or is overloaded: the same question may succeed
    │   └── ModelTooSlow   it did not answer in the time it was given: a smaller one may succeed
    ├── ModelRefused       its server refused what was sent: another question may be taken
    └── ModelAnswerError   it answered this question, and not usably: another one may fare better
"""

from __future__ import annotations

from pathlib import Path


class MemoryPipelineError(Exception):
    """The root: shells print it as one line, `error: what happened; what to do`."""

    def __init__(self, problem: str, remedy: str = "") -> None:
        super().__init__(problem, remedy)
        self.problem = problem
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.problem}; {self.remedy}" if self.remedy else self.problem


class ConfigError(MemoryPipelineError):
    """A setting is unknown, of the wrong type or out of range."""

    def __init__(self, source: str, key: str, problem: str, remedy: str = "") -> None:
        """`source` is where the setting stands: `config.yaml:7`, or an environment variable."""
        super().__init__(problem, remedy)
        self.source = source
        self.key = key

    def __str__(self) -> str:
        where = f"{self.source}: {self.key}" if self.key else self.source
        return f"{where}: {super().__str__()}"


class InputError(MemoryPipelineError):
    """A file, a value or another input cannot be used."""

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
    """An argument of a command is wrong or does not fit the others; nothing was read."""


class LedgerError(MemoryPipelineError):
    """The ledger cannot be opened, read or written; the failed transaction changed nothing."""


class LedgerMissing(LedgerError):
    """There is no ledger to read yet."""


class LedgerDamaged(LedgerError):
    """The ledger's file is not readable as a ledger."""


class LedgerOutdated(LedgerError):
    """An earlier version made the ledger; this operation may not upgrade it."""

    def __init__(self, name: str, stored: str, current: str) -> None:
        super().__init__(
            f"{name} has schema {stored}, this version needs {current}",
            "run `memory-dedup upgrade`: it writes a backup first",
        )
        self.stored = stored


class EmbedderMismatch(LedgerError):
    """The store's vectors come from another embedder than the configured one."""

    def __init__(self, stored: str, configured: str) -> None:
        super().__init__(
            f"this store was made with embedder {stored!r}, but {configured!r} is configured",
            "set memory.embedding back, or run `memory-dedup reembed`",
        )
        self.stored = stored
        self.configured = configured


class LeaseLost(MemoryPipelineError):
    """Another process took over a conversation; this process stores nothing more of it."""

    def __init__(self, conversation: str) -> None:
        super().__init__(f"another process extracts {conversation!r} now")
        self.conversation = conversation


class MemoryNotFound(MemoryPipelineError):
    """No live memory has the id."""

    def __init__(self, memory_id: str) -> None:
        super().__init__(f"no live memory has the id {memory_id!r}", "see `memory-dedup export`")
        self.memory_id = memory_id


class StillStatedBy(MemoryPipelineError):
    """A retired memory cannot be forgotten alone: another memory contains what it said."""

    def __init__(self, memory_id: str, successor_id: str) -> None:
        super().__init__(
            f"{memory_id} lives on in {successor_id}", f"forget {successor_id} to erase both"
        )
        self.memory_id = memory_id
        self.successor_id = successor_id


class CannotUndo(MemoryPipelineError):
    """A decision or a run cannot be undone."""

    def __init__(
        self, target: int | str, problem: str, remedy: str = "see `memory-dedup history`"
    ) -> None:
        """`target` is a decision's number or a run's name."""
        what = f"decision {target}" if isinstance(target, int) else f"run {target!r}"
        super().__init__(f"{what} cannot be undone: {problem}", remedy)
        self.target = target


class EmbeddingError(MemoryPipelineError):
    """The embedder failed, or returned something that is not one unit vector per text."""


class IndexFault(MemoryPipelineError):
    """The index cannot answer; the caller falls back to exact search."""


class ForeignIndex(IndexFault):
    """The index follows another ledger."""


class ModelError(MemoryPipelineError):
    """The language model failed, or its answer is not usable; `problem` is the reason.

    The attributes count the calls and tokens that were paid for, as far as they are known.
    """

    calls = 0
    input_tokens = 0
    output_tokens = 0


class ModelUnavailable(ModelError):
    """No answer for now: a broken connection, a time-out, an overloaded or limiting server."""

    def __init__(self, problem: str, remedy: str = "", retry_after_s: float | None = None) -> None:
        """`retry_after_s` is how long the server asked to wait."""
        super().__init__(problem, remedy)
        self.retry_after_s = retry_after_s


class ModelNotAsked(ModelUnavailable):
    """The model was not asked, since earlier calls failed."""


class CallsSpent(ModelNotAsked):
    """The run has used all its calls; a later run asks."""


class ModelTooSlow(ModelUnavailable):
    """No answer within the time limit; other questions may succeed."""


class ModelRefused(ModelError):
    """The server refused the request, for its content, its size or its form."""


class ModelAnswerError(ModelError):
    """The answer is blocked, cut off, empty or malformed; `may_pass` if a retry may help."""

    def __init__(self, problem: str, remedy: str = "", *, may_pass: bool = False) -> None:
        super().__init__(problem, remedy)
        self.may_pass = may_pass
