# Written by `python -m scripts.faces`.
from .attachments import ItemPlace as ItemPlace
from .database import set_aside as set_aside
from .judgements import BATCH_PAUSE as BATCH_PAUSE, ScopedText as ScopedText, TextPair as TextPair
from .ledger import AdaptiveBatchSize as AdaptiveBatchSize, Ledger as Ledger, Reader as Reader, Writer as Writer
from .links import seen_from as seen_from
from .memories import identity_hash as identity_hash, split_repeats as split_repeats
from .migrations import UPGRADE_COPIES as UPGRADE_COPIES
from .records import Change as Change, Counts as Counts, DecisionRecord as DecisionRecord, FORGOTTEN_REASON as FORGOTTEN_REASON, Lease as Lease, LiveRow as LiveRow, NOTHING_BEFORE as NOTHING_BEFORE, PendingTurn as PendingTurn, REVERSIBLE as REVERSIBLE, Row as Row, StoredItem as StoredItem, Waiting as Waiting, with_verdicts as with_verdicts
from .snapshot import Snapshot as Snapshot, snapshot_of as snapshot_of, take_snapshot as take_snapshot
from .terms import Postings as Postings
from .turns import turn_of as turn_of
from .vectors import VectorTable as VectorTable
