"""Addresses of memory's pages."""

from __future__ import annotations

from django.urls import URLPattern

app_name = "memory"
urlpatterns: list[URLPattern] = []
