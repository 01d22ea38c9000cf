"""The search index: what each record says as counted terms, and how often each term occurs.

The figures are kept by statement triggers inside the writer's own transaction, so that a rollback
leaves nothing and a search always sees what stands in the rows.
"""

from __future__ import annotations

from typing import ClassVar

import pgtrigger
from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVectorField
from django.db import models
from django.utils import timezone

from memory.models.history import OwnedQuerySet

# Writers of one owner wait for each other at the rows of all the owner's spaces, in their order: the
# terms they count are shared, and one that writes a note and then a finding would else lock the two
# spaces in another order than one that does the reverse, and Postgres end one of them (a deadlock).
# NO KEY leaves the key alone, which is all that a foreign key's check needs.
#
# `most` and `shortest` bound what a term can add to a score, for exact pruning: they only widen,
# since a bound that is too wide costs time and nothing else.
_COUNTED = """
    PERFORM 1 FROM memory_searchspace
     WHERE owner_id IN (SELECT owner_id FROM memory_searchspace
                         WHERE id IN (SELECT space_id FROM added))
     ORDER BY id FOR NO KEY UPDATE;
    UPDATE memory_searchspace space
       SET documents = space.documents + more.documents, length = space.length + more.length
      FROM (SELECT space_id, count(*) AS documents, sum(length) AS length
              FROM added GROUP BY space_id) more
     WHERE space.id = more.space_id;
    INSERT INTO memory_searchterm AS term (space_id, lexeme, documents, most, shortest)
    SELECT added.space_id, word.lexeme, count(*),
           coalesce(max(cardinality(word.positions)), 1), min(added.length)
      FROM added, unnest(added.words) word GROUP BY 1, 2 ORDER BY 1, 2
        ON CONFLICT (space_id, lexeme) DO UPDATE
       SET documents = term.documents + excluded.documents,
           most = greatest(term.most, excluded.most),
           shortest = least(term.shortest, excluded.shortest);
    RETURN NULL;
"""

_DISCOUNTED = """
    PERFORM 1 FROM memory_searchspace
     WHERE owner_id IN (SELECT owner_id FROM memory_searchspace
                         WHERE id IN (SELECT space_id FROM gone))
     ORDER BY id FOR NO KEY UPDATE;
    UPDATE memory_searchspace space
       SET documents = space.documents - less.documents, length = space.length - less.length
      FROM (SELECT space_id, count(*) AS documents, sum(length) AS length
              FROM gone GROUP BY space_id) less
     WHERE space.id = less.space_id;
    UPDATE memory_searchterm term SET documents = term.documents - less.documents
      FROM (SELECT gone.space_id, word.lexeme, count(*) AS documents
              FROM gone, unnest(gone.words) word GROUP BY 1, 2) less
     WHERE term.space_id = less.space_id AND term.lexeme = less.lexeme;
    RETURN NULL;
"""

# An entry's other columns change more often than its words: then there is nothing to count.
_RECOUNTED = """
    IF NOT EXISTS (SELECT 1 FROM gone JOIN added USING (id, space_id)
                    WHERE gone.words <> added.words OR gone.length <> added.length)
       AND NOT EXISTS (SELECT 1 FROM gone JOIN added USING (id)
                        WHERE gone.space_id <> added.space_id) THEN
        RETURN NULL;
    END IF;
    PERFORM 1 FROM memory_searchspace
     WHERE owner_id IN (SELECT owner_id FROM memory_searchspace
                         WHERE id IN (SELECT space_id FROM gone
                                      UNION SELECT space_id FROM added))
     ORDER BY id FOR NO KEY UPDATE;
    UPDATE memory_searchspace space
       SET documents = space.documents + change.documents, length = space.length + change.length
      FROM (SELECT space_id, sum(one) AS documents, sum(length) AS length
              FROM (SELECT space_id, -1 AS one, -length AS length FROM gone
                    UNION ALL SELECT space_id, 1, length FROM added) both_
             GROUP BY space_id) change
     WHERE space.id = change.space_id;
    INSERT INTO memory_searchterm AS term (space_id, lexeme, documents, most, shortest)
    SELECT space_id, lexeme, sum(one), max(most), min(length)
      FROM (SELECT gone.space_id, word.lexeme, -1 AS one, 1 AS most, gone.length
              FROM gone, unnest(gone.words) word
            UNION ALL
            SELECT added.space_id, word.lexeme, 1, coalesce(cardinality(word.positions), 1),
                   added.length
              FROM added, unnest(added.words) word) both_
     GROUP BY 1, 2 ORDER BY 1, 2
        ON CONFLICT (space_id, lexeme) DO UPDATE
       SET documents = term.documents + excluded.documents,
           most = greatest(term.most, excluded.most),
           shortest = least(term.shortest, excluded.shortest)
     WHERE excluded.documents <> 0 OR excluded.most > term.most
        OR excluded.shortest < term.shortest;
    RETURN NULL;
"""


class SearchSpace(models.Model):
    """Records that are ranked among each other: one owner's, of one type.

    `documents` and `length` (terms counted, all documents together) are BM25's N and N x avgdl;
    `language` is the one as which its words were stemmed.
    """

    id = models.AutoField(primary_key=True)
    owner = models.ForeignKey("memory.User", models.CASCADE, related_name="+")
    record_type = models.CharField(max_length=40)
    language = models.CharField(max_length=8, default="en")
    documents = models.BigIntegerField(default=0)
    length = models.BigIntegerField(default=0)

    objects: ClassVar[models.Manager[SearchSpace]] = OwnedQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["owner", "record_type"], name="search_space_once_an_owner_and_type"
            )
        ]

    def __str__(self) -> str:
        return f"{self.record_type} of {self.owner_id}"


class SearchEntry(models.Model):
    """What one record says, as counted terms; `length` is how many are counted.

    The other columns are what recall filters by most: beside the words they cost no look at the
    record.  `until` is when it expires, `stands` whether nothing superseded it; trust and
    sensitivity are here because every recall of an agent leaves some of both out.
    """

    id = models.BigAutoField(primary_key=True)
    space = models.ForeignKey(SearchSpace, models.CASCADE, related_name="entries", db_index=False)
    record_id = models.UUIDField()
    length = models.PositiveIntegerField()
    words = SearchVectorField()
    kind = models.CharField(max_length=12, blank=True)
    topic_id = models.UUIDField(null=True, blank=True)
    created = models.DateTimeField(default=timezone.now)
    until = models.DateTimeField(null=True, blank=True)
    stands = models.BooleanField(default=True)
    trust = models.CharField(max_length=12, default="owner")
    sensitivity = models.CharField(max_length=10, default="normal")

    class Meta:
        verbose_name_plural = "search entries"
        constraints = [
            models.UniqueConstraint(
                fields=["space", "record_id"], name="search_entry_once_a_record"
            )
        ]
        indexes = [
            GinIndex(fields=["words"], name="search_entry_words", fastupdate=False),
            models.Index(
                fields=["space"], condition=models.Q(stands=False), name="search_entry_superseded"
            ),
        ]
        triggers = [
            pgtrigger.Trigger(
                name="counted",
                level=pgtrigger.Statement,
                when=pgtrigger.After,
                operation=pgtrigger.Insert,
                referencing=pgtrigger.Referencing(new="added"),
                func=_COUNTED,
            ),
            pgtrigger.Trigger(
                name="discounted",
                level=pgtrigger.Statement,
                when=pgtrigger.After,
                operation=pgtrigger.Delete,
                referencing=pgtrigger.Referencing(old="gone"),
                func=_DISCOUNTED,
            ),
            pgtrigger.Trigger(
                name="recounted",
                level=pgtrigger.Statement,
                when=pgtrigger.After,
                operation=pgtrigger.Update,
                referencing=pgtrigger.Referencing(old="gone", new="added"),
                func=_RECOUNTED,
            ),
        ]

    def __str__(self) -> str:
        return str(self.record_id)


class SearchTerm(models.Model):
    """In how many documents of its space a term occurs: BM25's document frequency.

    `most` is how often at most it occurs in one of them, `shortest` the length of none less.
    """

    pk = models.CompositePrimaryKey("space_id", "lexeme")
    space = models.ForeignKey(SearchSpace, models.CASCADE, related_name="terms", db_index=False)
    lexeme = models.TextField(db_collation="C")
    documents = models.IntegerField()
    most = models.SmallIntegerField(default=255)
    shortest = models.IntegerField(default=0)

    def __str__(self) -> str:
        return self.lexeme
