# Written by `python -m scripts.faces`.
from .pages import Report as Report, audit_report as audit_report, batch_report as batch_report, check_report_name as check_report_name, history_report as history_report, write_report as write_report
from .server import BrowserSession as BrowserSession, ReviewServer as ReviewServer
