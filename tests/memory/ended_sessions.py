"""An ended session is finished by a worker."""

from __future__ import annotations

from memory.agents.chat import end as conversation_end
from memory.models import Reflection, Session


def finish_session(session: Session) -> bool:
    """Let a worker finish the session. Return False if it hasn't ended."""
    waiting = Reflection.objects.filter(source=f"session:{session.pk}").first()
    return waiting is not None and conversation_end.finish(waiting.pk)
