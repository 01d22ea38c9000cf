"""The chain of notes that stand in for one another: the newest first, then what it superseded."""

from __future__ import annotations

from memory.models import Note

MOST_LINKS = 60
# The planner takes a chain to be thousands of notes long and would then read the whole table at each
# step.  OFFSET 0 keeps each look a subquery of its own, by index, one per note of the chain.  Steps
# come in their order, so the LIMIT ends the walk, where one note stands for thousands.
_CHAIN = """
    WITH RECURSIVE later AS (
        SELECT id, superseded_by_id FROM memory_note WHERE id = %(note)s AND owner_id = %(owner)s
         UNION
        SELECT next.id, next.superseded_by_id
          FROM later, LATERAL (
               SELECT id, superseded_by_id FROM memory_note
                WHERE id = later.superseded_by_id AND owner_id = %(owner)s OFFSET 0) next
    ), earlier AS (
        SELECT id, 0 AS step FROM later WHERE superseded_by_id IS NULL
         UNION ALL
        SELECT before.id, earlier.step + 1
          FROM earlier, LATERAL (
               SELECT id FROM memory_note
                WHERE superseded_by_id = earlier.id AND owner_id = %(owner)s OFFSET 0) before
         WHERE earlier.step < %(most)s
    )
    SELECT note.*, earlier.step
      FROM (SELECT * FROM earlier LIMIT %(most)s) earlier,
           LATERAL (SELECT * FROM memory_note WHERE id = earlier.id OFFSET 0) note
     ORDER BY earlier.step, note.created DESC, note.id
"""


def chain(note: Note) -> list[Note]:
    """Return `note` with all that stands in its chain: the one that stands first, the oldest last.

    Each bears as `step` how many links it is away from the first.  One query; of more than sixty
    notes the sixty with the fewest steps are returned.
    """
    asked = {"note": note.pk, "owner": note.owner_id, "most": MOST_LINKS}
    return list(Note.objects.raw(_CHAIN, asked))
