from .account import Account as Account
from .groups import cohesive as cohesive, connected as connected
from .nominate import (
    Embed as Embed,
    FLOOR as FLOOR,
    NOMINATED as NOMINATED,
    OwnedText as OwnedText,
    nominate as nominate,
    scores as scores,
)
from .planning import (
    Matching as Matching,
    NearCopies as NearCopies,
    RoundPlan as RoundPlan,
    near_copies as near_copies,
    plan_round as plan_round,
)
from .policy import (
    Doubted as Doubted,
    GroupPlan as GroupPlan,
    add as add,
    after_failure as after_failure,
    decide_new as decide_new,
    inherit as inherit,
    oldest_first as oldest_first,
    resolve as resolve,
)
from .rereading import still_wrong as still_wrong
