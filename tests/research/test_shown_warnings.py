"""How a warning begins where a run shows it."""

from __future__ import annotations

import pytest

from research.services.runs import presenters


@pytest.mark.parametrize(
    ("kept", "told"),
    [
        ("Written without the model: no", "Written without the model: no"),
        ("arXiv did not answer", "arXiv did not answer"),
        ("Run #1 asked", "Run #1 asked"),
        ("", ""),
    ],
)
def test_a_warning_begins_with_a_capital_and_a_name_as_it_is_written(kept: str, told: str):
    assert presenters.begun(kept) == told
