"""Paused records over REST."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.cast import Program, items

SAID = "The zebra is expensive."


@pytest.mark.requirement("R376")
def test_agents_do_not_see_it_over_rest_and_cannot_resume_it(
    agent: Program, person: Program, alice: Any
) -> None:
    path = f"/notes/{agent.post('/notes', {'content': SAID}).json()['id']}"

    refused = agent.patch(path, {"paused": True}, If_Match='"1"')
    answer = person.patch(path, {"paused": True}, If_Match='"1"')

    assert refused.status_code == 403
    assert answer.json()["paused"] is True
    assert agent.get(path).status_code == 403
    assert SAID not in str(items(agent.get("/notes?state=all")))
    assert items(agent.get("/recall?q=zebra+is:paused")) == []
    assert items(agent.get("/recall?q=zebra")) == []
    assert agent.patch(path, {"paused": False}, If_Match='"2"').status_code == 403
    assert person.patch(path, {"paused": False}, If_Match='"2"').json()["paused"] is False
    assert [one["content"] for one in items(agent.get("/recall?q=zebra"))] == [SAID]
