"""A token that only writes reads nothing by MCP, neither by tools nor as resources."""

from __future__ import annotations

import pytest

from memory import tokens
from memory.models import User
from research.mcp import resources
from research.mcp.callers import Caller
from research.mcp.resources import NoSuchResource
from tests.research.mcp_cast import token_of


@pytest.fixture
def writer(alice: User) -> Caller:
    text = token_of(alice, "write")
    return Caller(find=lambda: tokens.find(text))


def test_it_lists_no_files_and_reports(writer: Caller) -> None:
    with pytest.raises(NoSuchResource, match="lacks the scope read"):
        resources.page_of(writer, None)


def test_it_reads_no_file(writer: Caller) -> None:
    with pytest.raises(NoSuchResource, match="lacks the scope read"):
        resources.read(writer, "beacon://files/facts/user.md")
