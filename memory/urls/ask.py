"""URLs of Ask: sessions with the agent, and actions on one."""

from __future__ import annotations

from django.urls import URLPattern, path

from memory.pages import chat

_ONE = "ask/<uuid:pk>/"
_ANSWER = "ask/answers/<int:pk>/"

urlpatterns: list[URLPattern] = [
    path("ask/", chat.ask, name="ask"),
    path(_ONE, chat.session, name="session"),
    path(_ONE + "say/", chat.session_say, name="session-say"),
    path(_ONE + "end/", chat.session_end, name="session-end"),
    path(_ONE + "rename/", chat.session_rename, name="session-rename"),
    path(_ONE + "left/", chat.session_left, name="session-left"),
    path(_ANSWER, chat.message, name="message"),
    path(_ANSWER + "stop/", chat.message_stop, name="message-stop"),
    path(_ANSWER + "again/", chat.message_again, name="message-again"),
]
