"""How large a text is: bytes exactly, tokens by a vocabulary that is there, else an honest estimate."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beacon_site.providers.llm import tokens
from beacon_site.providers.llm.tokens import (
    ESTIMATED,
    VOCABULARY,
    Size,
    count_method_label,
    counted,
)


@pytest.fixture(autouse=True)
def _asked_anew() -> Iterator[None]:
    tokens._vocabulary.cache_clear()
    yield
    tokens._vocabulary.cache_clear()


class Words:
    """A vocabulary in which each word is a token."""

    def encode_ordinary(self, text: str) -> list[str]:
        return text.split()


@pytest.fixture
def tiktoken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """tiktoken as if it were installed, with an empty cache."""
    module: Any = types.ModuleType("tiktoken")
    module.get_encoding = lambda name: Words()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name == "tiktoken" or None)
    monkeypatch.setattr(importlib, "import_module", lambda name: module)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    return tmp_path


def in_cache(folder: Path, what: bytes) -> None:
    (folder / hashlib.sha1(tokens._URL.encode(), usedforsecurity=False).hexdigest()).write_bytes(
        what
    )


@pytest.mark.parametrize(
    ("text", "size"),
    [("", Size(0, 0)), ("abcd", Size(4, 1)), ("abcde", Size(5, 2)), ("電池", Size(6, 2))],
)
def test_without_tiktoken_tokens_are_estimated_by_bytes_and_that_is_explained(
    text: str, size: Size
):
    assert counted(text) == size
    assert counted(text).is_estimated
    assert "estimated at 4 bytes per token" in count_method_label()


def test_tiktoken_without_its_file_is_not_asked_for_it_would_download(tiktoken: Path):
    assert counted("one two three").how == ESTIMATED


def test_a_file_that_is_not_the_vocabulary_is_not_taken_for_it(tiktoken: Path):
    in_cache(tiktoken, b"half of the file")
    assert counted("one two three").how == ESTIMATED


def test_with_its_file_tokens_are_counted(tiktoken: Path, monkeypatch: pytest.MonkeyPatch):
    in_cache(tiktoken, b"the vocabulary")
    monkeypatch.setattr(tokens, "_SHA256", hashlib.sha256(b"the vocabulary").hexdigest())
    assert counted("one two three") == Size(13, 3, VOCABULARY)
    assert VOCABULARY in count_method_label()


def test_a_cache_that_is_switched_off_is_none(tiktoken: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    assert counted("one two three").how == ESTIMATED


def test_what_cannot_be_encoded_is_counted_all_the_same():
    assert counted("\ud800").bytes == 1
