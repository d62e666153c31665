from .attempts import BATCH_PAUSE as BATCH_PAUSE
from .copies import UPGRADE_COPIES as UPGRADE_COPIES
from .database import set_aside as set_aside
from .distinct import TextPair as TextPair
from .ledger import Ledger as Ledger
from .links import seen_from as seen_from
from .records import (
    Change as Change,
    Counts as Counts,
    DecisionRecord as DecisionRecord,
    IndexState as IndexState,
    PendingTurn as PendingTurn,
    RESTORED as RESTORED,
    REVERSIBLE as REVERSIBLE,
    Row as Row,
    Run as Run,
)
from .snapshot import Lineage as Lineage, Snapshot as Snapshot, take_snapshot as take_snapshot
from .state import Reader as Reader, Writer as Writer
