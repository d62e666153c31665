"""The names of the core that `adapters/`, `agent/` and `cli/` use, so that they import one face."""

from memory.coverage import (
    differing as differing,
    states as states,
    still_stated as still_stated,
)
from memory.decide import (
    NearCopies as NearCopies,
    Order as Order,
    decide_new as decide_new,
    inherit as inherit,
    near_copies as near_copies,
    oldest_first as oldest_first,
    similarity_histogram as similarity_histogram,
)
from memory.ledger import (
    DecisionRecord as DecisionRecord,
    ItemPlace as ItemPlace,
    Ledger as Ledger,
    Reader as Reader,
    StoredItem as StoredItem,
    Writer as Writer,
    snapshot_of as snapshot_of,
)
from memory.store import (
    NOBODY as NOBODY,
    Conflict as Conflict,
    Forgotten as Forgotten,
    ForgottenUser as ForgottenUser,
    MemoryStore as MemoryStore,
    Nearby as Nearby,
    NewMemory as NewMemory,
    Suspect as Suspect,
    answer as answer,
    described as described,
    erase as erase,
    described_turns as described_turns,
    forget_turns as forget_turns,
    forget_user as forget_user,
    plan_undo as plan_undo,
    reworded as reworded,
    superseding as superseding,
    suspects as suspects,
)
