from .backup import back_up as back_up, restore as restore
from .calibrate import (
    ask_model as ask_model,
    ask_person as ask_person,
    lines as lines,
    pairs_of as pairs_of,
)
from .calibration import (
    AlikePair as AlikePair,
    Answer as Answer,
    Band as Band,
    Counted as Counted,
    Price as Price,
    prices as prices,
    suggest as suggest,
    tally as tally,
)
from .calibration_log import CalibrationLog as CalibrationLog
from .doctor import examine as examine, mend as mend
from .intervals import wilson as wilson
from .reembed import reembed as reembed
