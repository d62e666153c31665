# Written by `python -m scripts.faces`.
from .applying import Conflict as Conflict
from .forgetting import Forgotten as Forgotten, ForgottenUser as ForgottenUser, erase as erase, forget_user as forget_user, matching as matching, scrub as scrub
from .nearby import Asker as Asker, NOBODY as NOBODY, Nearby as Nearby, NewMemory as NewMemory, RetryPolicy as RetryPolicy, kept_apart as kept_apart
from .store import MemoryStore as MemoryStore, reworded as reworded, utc_now as utc_now
from .superseding import Holds as Holds, Suspect as Suspect, add_ended as add_ended, answer as answer, superseding as superseding, suspects as suspects
from .undoing import close_pending as close_pending, plan_undo as plan_undo, reopen_pending as reopen_pending
