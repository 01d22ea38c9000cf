"""Listing and reading resources by MCP: who has no access, and where a list ends."""

from __future__ import annotations

import pytest

from memory.accounts import tokens
from memory.models import User
from research.mcp import server
from research.mcp.server import Caller, NoSuchResource
from tests.research.mcp_cast import token_of


@pytest.fixture
def writer(alice: User) -> Caller:
    text = token_of(alice, "write")
    return Caller(find=lambda: tokens.find(text))


def test_it_lists_no_files_and_reports(writer: Caller) -> None:
    with pytest.raises(NoSuchResource, match="lacks the read scope"):
        server.page_of(writer, None)


def test_it_reads_no_file(writer: Caller) -> None:
    with pytest.raises(NoSuchResource, match="lacks the read scope"):
        server.read(writer, "beacon://files/facts/user.md")


def test_a_cursor_that_no_list_gave_is_refused_and_no_first_page(alice: User) -> None:
    text = token_of(alice, "read")
    reader = Caller(find=lambda: tokens.find(text))

    for cursor in ("next", "-1", "9" * 40, "²"):
        with pytest.raises(NoSuchResource, match="cursor isn’t valid"):
            server.page_of(reader, cursor)
