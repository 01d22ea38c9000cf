"""Pages come packed to browsers that take them so; what programs get is as it was."""

from __future__ import annotations

import gzip

from django.test import Client

PACKED = {"Accept-Encoding": "gzip"}


def test_a_page_comes_packed_and_says_what_it_says_unpacked(browser: Client):
    packed = browser.get("/notes/", headers=PACKED)
    plain = browser.get("/notes/")

    assert packed.headers["Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in plain.headers
    assert b"</html>" in gzip.decompress(packed.content)
    assert len(packed.content) * 2 < len(plain.content)
    assert "Accept-Encoding" in packed.headers["Vary"]


def test_what_programs_read_is_not_packed(browser: Client):
    answer = browser.get("/api/v1/openapi.json", headers=PACKED)

    assert answer.status_code == 200
    assert "Content-Encoding" not in answer.headers
