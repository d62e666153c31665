from .conversation import (
    Candidate as Candidate,
    Extraction as Extraction,
    ExtractionResult as ExtractionResult,
    Reply as Reply,
    Turn as Turn,
)
from .decision import (
    Action as Action,
    Decision as Decision,
    Doubt as Doubt,
    JUDGES as JUDGES,
    Judge as Judge,
    MergeGroup as MergeGroup,
    OFFLINE as OFFLINE,
    OnMergeFailure as OnMergeFailure,
    Outcome as Outcome,
    Question as Question,
    Rules as Rules,
    SecondReading as SecondReading,
    Survivor as Survivor,
    Usage as Usage,
    Verdict as Verdict,
)
from .episode import Episode as Episode
from .memory import (
    Embedded as Embedded,
    INVERSE_LINK as INVERSE_LINK,
    LinkType as LinkType,
    Memory as Memory,
    MemoryLink as MemoryLink,
    Scope as Scope,
    ScopeField as ScopeField,
    SearchResult as SearchResult,
    is_memory_id as is_memory_id,
    new_memory_id as new_memory_id,
)
from .problems import Problem as Problem, first_problem as first_problem
from .report import (
    DeduplicationReport as DeduplicationReport,
    GroupReport as GroupReport,
    JustBelow as JustBelow,
    MemberReport as MemberReport,
)
from .scale import (
    LOWER as LOWER,
    NEAR_COPY as NEAR_COPY,
    PLAIN as PLAIN,
    Scale as Scale,
    scale_of as scale_of,
)
from .values import (
    Frozen as Frozen,
    MAX_CONTENT as MAX_CONTENT,
    Vector as Vector,
    Vectors as Vectors,
    as_tuple as as_tuple,
)
