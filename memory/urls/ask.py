"""Addresses of Ask: sessions with the agent, and what is done in one."""

from __future__ import annotations

from django.urls import URLPattern, path

from memory.views import ask

_ONE = "ask/<uuid:pk>/"
_ANSWER = "ask/answers/<int:pk>/"

urlpatterns: list[URLPattern] = [
    path("ask/", ask.ask, name="ask"),
    path(_ONE, ask.session, name="session"),
    path(_ONE + "say/", ask.session_say, name="session-say"),
    path(_ONE + "end/", ask.session_end, name="session-end"),
    path(_ONE + "rename/", ask.session_rename, name="session-rename"),
    path(_ONE + "left/", ask.session_left, name="session-left"),
    path(_ANSWER, ask.message, name="message"),
    path(_ANSWER + "stop/", ask.message_stop, name="message-stop"),
    path(_ANSWER + "again/", ask.message_again, name="message-again"),
]
