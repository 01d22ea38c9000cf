"""Addresses of research's pages."""

from __future__ import annotations

from django.urls import URLPattern

app_name = "research"
urlpatterns: list[URLPattern] = []
