"""An ended session is finished by a worker."""

from __future__ import annotations

from memory.chat import end as conversation_end
from memory.models import Reflection, Session


def finish_session(session: Session) -> bool:
    """Let a worker finish the session."""
    return conversation_end.finish(Reflection.objects.get(source=f"session:{session.pk}").pk)
