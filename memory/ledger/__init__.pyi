# Written by `python -m scripts.faces`.
from .attachments import ItemPlace as ItemPlace, Lease as Lease, PendingTurn as PendingTurn, StoredItem as StoredItem, Waiting as Waiting, turn_of as turn_of
from .database import set_aside as set_aside
from .decisions import DecisionRecord as DecisionRecord, NOTHING_BEFORE as NOTHING_BEFORE, REVERSIBLE as REVERSIBLE, with_verdicts as with_verdicts
from .judgements import BATCH_PAUSE as BATCH_PAUSE, FORGOTTEN_REASON as FORGOTTEN_REASON
from .ledger import AdaptiveBatchSize as AdaptiveBatchSize, Counts as Counts, Ledger as Ledger, Reader as Reader, Writer as Writer, snapshot_of as snapshot_of, take_snapshot as take_snapshot
from .links import seen_from as seen_from
from .memories import identity_hash as identity_hash, split_repeats as split_repeats
from .migrations import UPGRADE_COPIES as UPGRADE_COPIES
from .search_data import Change as Change, LiveRow as LiveRow, Postings as Postings
