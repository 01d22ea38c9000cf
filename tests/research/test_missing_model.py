"""A topic whose model is no longer set up."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from memory.models import Connection, Topic
from research.models import Run, TopicSettings
from tests.research.conftest import Providers

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(("wanted", "is_told"), [("gone", True), ("careful", False), ("", False)])
def test_a_run_says_that_its_model_is_gone(
    providers: Providers,
    topic: Topic,
    run_of: Callable[[Topic], Run],
    wanted: str,
    is_told: bool,
) -> None:
    others = [{"model": "careful", "tasks": [], "prices": {}}]
    Connection.objects.create(kind="model", name="model", model="usual", profile={"others": others})
    TopicSettings.objects.update_or_create(topic=topic, defaults={"model": wanted})

    warnings = run_of(topic).warnings

    assert ("“gone” is no longer set up, so usual was used" in str(warnings)) == is_told
