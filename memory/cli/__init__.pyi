from .commands import app as app, main as main
from .looking import show_audit as show_audit
from .report import view as view
from .shell import (
    err as err,
    progress as progress,
    run_shell as run_shell,
    set_up_logging as set_up_logging,
    show as show,
)
from .tables import table as table
