# Written by `python -m scripts.faces`.
from .cleaning import end_if_nothing_was_answered as end_if_nothing_was_answered, say_cost as say_cost, show_audit as show_audit, view as view
from .commands import app as app, main as main
from .shell import ConfigFile as ConfigFile, Debug as Debug, ReportFile as ReportFile, compared as compared, err as err, progress as progress, run_shell as run_shell, save_report as save_report, set_up_logging as set_up_logging, show as show, table as table, version_option as version_option
