# Written by `python -m scripts.faces`.
from .applying import Applied as Applied, Condition as Condition, Conflict as Conflict, Decided as Decided, Unconditional as Unconditional, UnlessRepeated as UnlessRepeated, WhileMergeable as WhileMergeable, WhileNearest as WhileNearest, WhileUnanswered as WhileUnanswered, WhileUnchanged as WhileUnchanged
from .asking import Asker as Asker, NOBODY as NOBODY, RetryPolicy as RetryPolicy
from .batch_size import AdaptiveBatchSize as AdaptiveBatchSize
from .comparing import Named as Named, cosines_to as cosines_to, find_named as find_named, is_like_all_of as is_like_all_of
from .forgetting import Forgotten as Forgotten, ForgottenUser as ForgottenUser, erase as erase, forget_user as forget_user, scrub as scrub
from .store import AlreadyStored as AlreadyStored, MemoryStore as MemoryStore, Neighbours as Neighbours, NewMemory as NewMemory, reworded as reworded, utc_now as utc_now
from .undoing import close_pending as close_pending, plan_undo as plan_undo, reopen_pending as reopen_pending
