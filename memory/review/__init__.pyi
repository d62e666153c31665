# Written by `python -m scripts.faces`.
from .answers import Answered as Answered, AnsweredMember as AnsweredMember, Answers as Answers, Given as Given, ReviewAnswer as ReviewAnswer, read_decisions as read_decisions
from .cards import Card as Card, CardMember as CardMember, MemoryHistory as MemoryHistory, card_key as card_key, cards_of as cards_of, content_hash as content_hash, memory_history as memory_history, recorded_cards as recorded_cards
from .report import Report as Report, audit_report as audit_report, batch_report as batch_report, check_report_name as check_report_name, history_report as history_report, write_report as write_report
from .server import BrowserSession as BrowserSession, ReviewServer as ReviewServer
from .session import Review as Review
