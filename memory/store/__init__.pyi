from .applying import (
    Anyway as Anyway,
    Applied as Applied,
    Condition as Condition,
    Conflict as Conflict,
    UnlessRepeated as UnlessRepeated,
    WhileMergeable as WhileMergeable,
    WhileNearest as WhileNearest,
    WhileUnchanged as WhileUnchanged,
)
from .asking import Asker as Asker, Insistence as Insistence, NOBODY as NOBODY
from .forgetting import Forgotten as Forgotten, erase as erase
from .lineage import is_like_all_of as is_like_all_of
from .store import (
    Arrival as Arrival,
    Known as Known,
    MemoryStore as MemoryStore,
    Neighbours as Neighbours,
    Unsearched as Unsearched,
    reworded as reworded,
    utc_now as utc_now,
)
from .undoing import (
    close_pending as close_pending,
    plan_undo as plan_undo,
    reopen_pending as reopen_pending,
)
