# Written by `python -m scripts.faces`.
from .covers import LONGEST as LONGEST, compare as compare, compare_memories as compare_memories, covers as covers, only_times_differ as only_times_differ, states as states
from .differences import difference as difference, differing as differing, differs as differs, marked as marked
from .outdating import asks_about_past as asks_about_past, may_outdate as may_outdate, still_stated as still_stated
from .parse import parse as parse
from .verification import Belief as Belief, conflicting_values as conflicting_values, hard_facts as hard_facts, verify as verify, verify_by_words as verify_by_words
