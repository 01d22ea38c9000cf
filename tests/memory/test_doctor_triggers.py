"""The doctor finds triggers that are missing, switched off or changed, and installs them."""

from __future__ import annotations

import pytest
from django.db import DatabaseError, connection, transaction

from memory.models import Revision, Topic, User
from research.models import TopicNews
from tests.doctor_cast import _no_word_is_left, asked, is_found_and_mended  # noqa: F401
from tests.research.factories import make_report, make_run, make_topic

TRIGGER = next(one for one in Revision._meta.triggers if one.name == "append_only")  # type: ignore[attr-defined]


def sql(words: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SET CONSTRAINTS ALL IMMEDIATE"
        )  # a table with checks to come is not altered
        cursor.execute(words.format(name=TRIGGER.get_pgid(Revision), table="memory_revision"))


def is_refused() -> bool:
    """Whether a revision cannot be changed."""
    try:
        with transaction.atomic():
            Revision.objects.update(reason="nothing happened")
    except DatabaseError:
        return True
    return False


@pytest.mark.parametrize(
    "drift",
    [
        "DROP TRIGGER {name} ON {table}",
        "ALTER TABLE {table} DISABLE TRIGGER {name}",
        "COMMENT ON TRIGGER {name} ON {table} IS 'of another version'",
    ],
    ids=["missing", "off", "changed"],
)
def test_a_trigger_that_drifted_is_found_and_mended(alice: User, drift: str) -> None:
    make_topic(alice)
    sql(drift)

    is_found_and_mended("triggers", "memory.Revision:append_only")

    assert is_refused()


def test_what_was_counted_without_a_trigger_is_counted_anew(alice: User) -> None:
    topic: Topic = make_topic(alice)
    make_report(make_run(topic))
    TopicNews.objects.update(counted=7, changes=7)
    sql("DROP TRIGGER {name} ON {table}")

    asked("triggers", fix=True)

    assert TopicNews.objects.get(topic=topic).is_stale
