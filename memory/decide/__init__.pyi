# Written by `python -m scripts.faces`.
from .account import Account as Account, Order as Order, certainty as certainty, first_groups as first_groups, planned_steps as planned_steps, similarities as similarities
from .candidates import CandidatePairs as CandidatePairs, Pairs as Pairs, candidate_pairs as candidate_pairs, in_order as in_order, joined as joined, nearest_of as nearest_of
from .likeness import Alike as Alike, AlikeGroup as AlikeGroup, Compared as Compared, NearCopies as NearCopies, PairSearch as PairSearch, connected as connected, near_copies as near_copies, plan_groups as plan_groups, similarity_histogram as similarity_histogram
from .pages import PagePlan as PagePlan, PageRules as PageRules
from .planning import AskedAgain as AskedAgain, PlanSettings as PlanSettings, Planner as Planner, RoundPlan as RoundPlan, plan_again as plan_again
from .policy import GroupPlan as GroupPlan, MOST_ASKED as MOST_ASKED, after_failure as after_failure, decide_new as decide_new, differences as differences, inherit as inherit, oldest_first as oldest_first, survivor_of as survivor_of, without_fallback as without_fallback
from .verdicts import Apart as Apart, MOST_IN_GROUP as MOST_IN_GROUP, Part as Part, as_read as as_read, checked as checked, decided as decided, merged as merged, objection as objection, part_alone as part_alone, refused_again as refused_again, resolve as resolve, same_fact as same_fact, successions as successions
