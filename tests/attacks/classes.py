"""Kinds of attack whose tests are next to their targets, and the sink under which each counts.

Each of these tests is one attempt: neutralized if it passes, run if it fails.  `make attacks`
runs these files too (scripts/bootstrap.py reads them here).
"""

from __future__ import annotations

_KEPT = "kept answers after a record was hidden"
_NUMBERS = "process numbers that another program has now"
CLASSES = {
    "tests/api/test_agent_scopes.py": "agent: another agent's scopes",
    "tests/api/test_agents_topics.py": "agent: topics as an asset",
    "tests/api/test_blocked_agents.py": "agent: blocked, by each act",
    "tests/api/test_note_review.py": "agent: each field of an edit",
    "tests/api/test_session_review.py": "agent: acts that work later",
    "tests/api/test_shown.py": "agent: laundering across doors",
    "tests/api/test_shown.py::test_a_kept_answer": _KEPT,
    "tests/api/test_shown.py::test_a_post_that_only_reads": _KEPT,
    "tests/api/test_write_only.py": "agent: a token that only writes",
    "tests/research/test_mcp_reading.py": "agent: reading by each door",
    "tests/api/test_at_once.py": "conditional requests at once",
    "tests/api/test_cost.py": "cost by size within the limits",
    "tests/memory/test_recall_work.py": "cost by size within the limits",
    "tests/pages/test_admin_oracles.py": "admin: what is masked, by filter, search and order",
    "tests/research/test_purge_everywhere.py": "deleted permanently: traces in every table",
    "tests/site/test_embedded.py::test_a_pid_that": _NUMBERS,
    "tests/site/test_embedded.py::test_the_postgres_that_wrote": _NUMBERS,
    "tests/site/test_embedded.py::test_a_postgres_on_our_folder": _NUMBERS,
    "tests/site/test_embedded.py::test_a_number_of": _NUMBERS,
    "tests/site/test_up.py::test_down_stops_no_process": _NUMBERS,
    "tests/site/test_full_disk.py": "Postgres: a full disk",
    "tests/site/test_database_errors.py": "Postgres: lock waits, pauses and deadlocks",
}


def sink_of(nodeid: str) -> str:
    """Return the sink under which a test counts, that of the longest name; empty for none."""
    names = [name for name in CLASSES if nodeid.startswith(name)]
    return CLASSES[max(names, key=len)] if names and " without " not in nodeid else ""
