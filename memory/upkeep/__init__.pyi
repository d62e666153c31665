# Written by `python -m scripts.faces`.
from .calibrate import CalibrationLog as CalibrationLog, ask_model as ask_model, ask_person as ask_person, lines as lines, pairs_of as pairs_of, reviewed as reviewed
from .calibration import AlikePair as AlikePair, Answer as Answer, Counted as Counted, prices as prices, suggest as suggest, tally as tally, wilson as wilson
from .doctor import back_up as back_up, examine as examine, mend as mend, reembed as reembed, restore as restore
from .try_model import ModelTrial as ModelTrial, try_model as try_model
