"""The doctor: each thing that may have drifted is looked at, explained, and mended if asked.

Data flow: `examine` -> what Health shows (`memory.doctor.checkup`) -> each registered examination: `look`
compares, `mend` brings together by the same acts and locks as the writers, and then it is looked
again.  What it found last is kept for the Health page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import structlog
from django.core.cache import cache
from django.db import connection, transaction
from django.utils import timezone
from django.utils.translation import gettext as _
from redis.exceptions import RedisError

from beacon_site import health
from beacon_site.database_errors import allow_long_transaction
from beacon_site.installed import BY_HAND
from memory.doctor import checkup
from memory.doctor.checkup import BAD, GOOD, LAST_EXAMINED, WARN, Check

logger = structlog.get_logger(__name__)

KEPT_SECONDS = 30 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Found:
    """What a look came to; `todo` is for a person, where no mending helps."""

    said: str
    state: str = GOOD
    todo: str = ""


@dataclass(frozen=True, slots=True)
class Examination:
    """One thing that may have drifted: how it is looked at, and how mended (None: by a person).

    `matters` says what goes wrong where it is not as it should be.  `mend` returns what it did and
    may be called again and again.  A slow one reads every record; where the ground is not there
    nothing else is looked at.
    """

    key: str
    name: Any
    matters: Any
    look: Callable[[], Found]
    mend: Callable[[], str] | None = None
    is_slow: bool = False
    is_ground: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """What the doctor says of one thing; `mended` is what was done about it just now."""

    key: str
    name: str
    state: str
    said: str
    matters: str = ""
    todo: str = ""
    mended: str = ""


EXAMINATIONS: list[Examination] = []


def register(*examinations: Examination) -> None:
    """Let the doctor look at these, too; ones of the same key are replaced."""
    keys = {one.key for one in examinations}
    EXAMINATIONS[:] = [one for one in EXAMINATIONS if one.key not in keys] + [*examinations]


def examine(*, fix: bool = False, quick: bool = False) -> list[Finding]:
    """Look at everything, mend with `fix` what can be mended, and keep what is found for Health.

    `quick` leaves out what reads every record.  Never raises for a thing that cannot be looked at.
    """
    return [*_parts(), *look_for_drift(fix=fix, quick=quick)]


def look_for_drift(*, fix: bool = False, quick: bool = False) -> list[Finding]:
    """Look at what may have drifted, which Health does not show; `fix` and `quick` as in `examine`."""
    found = []
    for one in EXAMINATIONS:
        if quick and one.is_slow:
            continue
        found.append(_examined(one, fix=fix))
        if one.is_ground and found[-1].state == BAD:
            break
    _keep(found)
    return found


def errors(found: list[Finding]) -> int:
    """Return how many of the findings are errors."""
    return sum(one.state == BAD for one in found)


def warnings(found: list[Finding]) -> int:
    """Return how many of them are warnings."""
    return sum(one.state == WARN for one in found)


def _parts() -> Iterator[Finding]:
    """Yield what the Health page shows."""
    try:
        checks = checkup.checks()
        stands_still = len(health.silent(health.ages())) == len(health.OLDEST)
    except Exception as exc:  # a look's edge: the others must still be made
        logger.exception("health not looked at")
        yield _not_looked("health", _("Parts of Beacon"), exc)
        return
    for check in checks:
        if check.key == checkup.DRIFT:  # the doctor's own word of last time
            continue
        if check.key in health.OLDEST and stands_still:
            continue
        yield _of_check(check)
    if stands_still:
        yield Finding(
            "processes",
            _("Processes"),
            WARN,
            _("None of Beacon's processes runs: it is stopped."),
            _("Runs, schedules and upkeep wait until it is started."),
            _("Start it (%(make)s up, or its services) where it should run.") % BY_HAND,
        )


def _of_check(check: Check) -> Finding:
    todo = check.todo if check.state != GOOD else ""
    return Finding(check.key or check.name, check.name, check.state, check.said, todo=todo)


def _examined(one: Examination, *, fix: bool) -> Finding:
    mended = ""
    try:
        found = _look(one)
        if fix and one.mend is not None and _can_be_mended(found):
            mended = one.mend()
            found = _look(one)
    except Exception as exc:  # a look's edge: the others must still be made
        logger.exception("not examined", what=one.key)
        return _not_looked(one.key, str(one.name), exc)
    todo = found.todo
    if one.mend is not None and _can_be_mended(found):
        again = _("Some of it stays: it is changing just now, or cannot be written. Ask again.")
        todo = again if fix else _("“%(manage)s doctor --fix” mends it.") % BY_HAND
    matters = str(one.matters) if found.state != GOOD or mended else ""
    return Finding(one.key, str(one.name), found.state, found.said, matters, todo, mended)


def _can_be_mended(found: Found) -> bool:
    return found.state != GOOD and not found.todo


def _look(one: Examination) -> Found:
    """Look at one moment of the database, so that what is written meanwhile seems no drift."""
    is_outermost = not connection.in_atomic_block
    with transaction.atomic():
        if is_outermost:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        allow_long_transaction()
        return one.look()


def _not_looked(key: str, name: str, exc: Exception) -> Finding:
    said = _("It could not be looked at (%(kind)s).") % {"kind": type(exc).__name__}
    todo = _("The log tells more; see Migrations first.")
    return Finding(key, name, BAD, said, todo=todo)


def _keep(found: list[Finding]) -> None:
    told = {
        "at": timezone.now(),
        "bad": [one.name for one in found if one.state == BAD],
        "warned": [one.name for one in found if one.state == WARN],
    }
    try:
        cache.set(LAST_EXAMINED, told, KEPT_SECONDS)
    except (RedisError, OSError):
        logger.info("the doctor's word was not kept")
