"""The queue of each task, and the schedule of beat: a few static ticks.

Due work is in rows that the tasks look up, so two beats start nothing twice.
"""

from __future__ import annotations

from typing import Any

ROUTES = {
    "research.tasks.execute_run": {"queue": "research"},
    "research.tasks.carry_out_follow_up": {"queue": "reflect"},
    "research.tasks.deliver": {"queue": "reflect"},
    "research.tasks.forget_deliveries": {"queue": "maintenance"},
    "research.tasks.tick": {"queue": "maintenance"},
    "memory.tasks.carry_out_archive": {"queue": "research"},
    "memory.tasks.*": {"queue": "maintenance"},
}


def every(seconds: float, task: str, queue: str = "maintenance") -> dict[str, Any]:
    """Return a tick of beat; its message expires at the next tick, or after an hour."""
    return {
        "task": task,
        "schedule": seconds,
        "options": {"expires": int(min(seconds, 3600)), "queue": queue},
    }


TICKS = {
    "tick": every(15.0, "research.tasks.tick"),
    "empty-the-trash": every(6 * 3600.0, "memory.tasks.empty_trash"),
    "forget-deliveries": every(6 * 3600.0, "research.tasks.forget_deliveries"),
    "retire-content": every(6 * 3600.0, "memory.tasks.retire_content"),
    "forget-sign-ins": every(6 * 3600.0, "memory.tasks.forget_sign_ins"),
    "forget-api-answers": every(3600.0, "memory.tasks.forget_api_answers"),
    "maintain-notes": every(6 * 3600.0, "memory.tasks.maintain", queue="reflect"),
    "publish-what-is-due": every(60.0, "memory.tasks.publish_due"),
    "embed-what-is-due": every(60.0, "memory.tasks.embed_due"),
    "go-on-with-bulk-acts": every(30.0, "memory.tasks.take_up_bulk_acts"),
    "go-on-with-sessions": every(15.0, "memory.tasks.take_up_conversations"),
    "go-on-with-archives": every(60.0, "memory.tasks.take_up_archives"),
    "verify": every(24 * 3600.0, "memory.tasks.verify"),
    "follow-languages": every(60.0, "memory.tasks.follow_languages"),
    "take-in-the-library": every(600.0, "memory.tasks.take_in_library"),
}
MIRROR = every(5.0, "memory.tasks.follow_mirror")
"""Only if BEACON_MIRROR_DIR is set."""
