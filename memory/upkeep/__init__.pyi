# Written by `python -m scripts.faces`.
from .answers import Answers as Answers, Given as Given, read_decisions as read_decisions
from .calibration import AlikePair as AlikePair, Answer as Answer, CalibrationLog as CalibrationLog, EDGES as EDGES, answers_about as answers_about, ask_model as ask_model, ask_person as ask_person, by_band as by_band, lines as lines, pairs_of as pairs_of, reviewed as reviewed, suggest_scale as suggest_scale, suggest_upper as suggest_upper
from .cards import Card as Card, CardMember as CardMember, MemoryHistory as MemoryHistory, cards_of as cards_of, memory_history as memory_history, recorded_cards as recorded_cards
from .doctor import back_up as back_up, examine as examine, mend as mend, reembed as reembed, restore as restore
from .report import Report as Report, audit_report as audit_report, batch_report as batch_report, check_report_name as check_report_name, history_report as history_report, write_report as write_report
from .review import Review as Review
from .server import BrowserSession as BrowserSession, ReviewServer as ReviewServer
from .try_model import ModelTrial as ModelTrial, try_model as try_model
