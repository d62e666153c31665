# Written by `python -m scripts.faces`.
from .collection import ExternalStore as ExternalStore, Kind as Kind
from .databases import is_postgres as is_postgres
from .foreign import Reading as Reading, as_memories as as_memories, users_of_several_agents as users_of_several_agents
from .jsonl import DumpedRow as DumpedRow, read_graph as read_graph, read_memories as read_memories, read_rows as read_rows, split_ended as split_ended, to_memory as to_memory, to_turn as to_turn, with_links_resolved as with_links_resolved, write_memory as write_memory
from .plan_back import ACROSS as ACROSS, LeftAlone as LeftAlone, WriteBackPlan as WriteBackPlan, change_lines as change_lines, note_kinds as note_kinds, noted_kinds as noted_kinds, plan_changes as plan_changes, plan_write_back as plan_write_back, undo_lines as undo_lines
from .selection import MEM0_COLLECTION as MEM0_COLLECTION, choose_namespaces as choose_namespaces, described as described, differing_fields as differing_fields, in_namespaces as in_namespaces, unexpired as unexpired, vector_folder as vector_folder, with_history as with_history
from .tables import PgvectorStore as PgvectorStore, langgraph_at as langgraph_at
from .vector_stores import ChromaStore as ChromaStore, QdrantStore as QdrantStore, is_address as is_address, is_qdrant as is_qdrant
from .write_back import TakenBack as TakenBack, UndoFile as UndoFile, note_reading as note_reading, note_run as note_run, noted_reading as noted_reading, noted_runs as noted_runs, own_work_in as own_work_in, read_undo_file as read_undo_file, undo_write_back as undo_write_back, with_vectors as with_vectors, write_back as write_back, write_lines as write_lines
