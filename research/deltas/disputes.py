"""What of a run's findings does not go together with what is known: for a person to decide.

Both facts stay, and the two are noted for the conflict desk; the engine picks no winner.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.utils.translation import gettext as _

from memory.actors import RESEARCH
from memory.models import Conflict, Topic, TopicFact
from memory.texts.text import match_key
from research.deltas.delta import Change, Status
from research.models import Run


def note(run: Run, topic: Topic, changes: Sequence[Change], fresh: Sequence[TopicFact]) -> int:
    """Note each contradiction and each unsure change between two facts that stand; return how many.

    The change keeps the conflict's key, so that its delta item leads there.
    """
    disputed = [c for c in changes if c.is_remembered and c.previous_id and not c.replaces]
    if not disputed:
        return 0
    made = {fact.key: fact for fact in fresh}
    olds = TopicFact.objects.filter(topic=topic).current()
    known = {str(fact.pk): fact for fact in olds.filter(pk__in=[c.previous_id for c in disputed])}
    noted = 0
    for change in disputed:
        old, new = known.get(change.previous_id), made.get(match_key(change.sentence))
        # A person may have edited the old one meanwhile: the run never saw that text.
        if old is None or new is None or old.key != match_key(change.previous_text):
            continue
        conflict = Conflict.objects.note(
            topic.owner,
            Conflict.Kind.CONTRADICTION,
            old,
            new,
            source=run.source,
            reason=_why(change),
            by=RESEARCH,
        )
        if conflict is not None:
            change.conflict_id = str(conflict.pk)
            noted += 1
    return noted


def _why(change: Change) -> str:
    if change.status == Status.CHANGED:
        return _("This might replace what was known.")
    return _("A source says otherwise than what was known.")
