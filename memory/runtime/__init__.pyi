# Written by `python -m scripts.faces`.
from . import files as files, telemetry as telemetry
from .files import BYTE_ORDER_MARK as BYTE_ORDER_MARK, clear_abandoned as clear_abandoned, clear_parts as clear_parts, clear_temporary_folders as clear_temporary_folders, open_regular as open_regular, own_lock as own_lock, read_bounded as read_bounded, read_objects as read_objects, replacing as replacing, replacing_alone as replacing_alone, temporary_folder as temporary_folder, write_whole as write_whole
from .listening import Address as Address, Gate as Gate, THIS_MACHINE as THIS_MACHINE, serve_until as serve_until
from .threads import LoopThread as LoopThread, OfEachLoop as OfEachLoop, in_thread as in_thread, in_thread_if_long as in_thread_if_long, side_by_side as side_by_side, stop_event as stop_event, terminate_as_interrupt as terminate_as_interrupt
