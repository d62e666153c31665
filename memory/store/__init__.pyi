# Written by `python -m scripts.faces`.
from .folding import collapse as collapse, is_told_by as is_told_by
from .forgetting import Forgotten as Forgotten, ForgottenUser as ForgottenUser, described as described, described_turns as described_turns, erase as erase, forget_turns as forget_turns, forget_user as forget_user, matching as matching, scrub as scrub
from .store import MemoryStore as MemoryStore, reworded as reworded, utc_now as utc_now
from .superseding import Holds as Holds, Suspect as Suspect, add_ended as add_ended, answer as answer, superseding as superseding, suspects as suspects
from .undoing import close_pending as close_pending, plan_undo as plan_undo, reopen_pending as reopen_pending
from .verdicts import Asker as Asker, NOBODY as NOBODY, RetryPolicy as RetryPolicy, kept_apart as kept_apart
from .writing import Conflict as Conflict, Nearby as Nearby, NewMemory as NewMemory
