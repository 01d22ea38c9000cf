"""The admin answers nothing about what it masks: not by filters, sorting, search or its other pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib import admin as django_admin
from django.contrib.admin.utils import get_fields_from_path
from django.test import Client, RequestFactory

from memory.admin import ReadOnlyAdmin
from memory.models import Note, Topic, TopicFact, User
from tests.pages.test_admin import REGISTERED, SECRET_TEXT, changed, listed, one_of_each

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
BEACONS = [m for m in REGISTERED if isinstance(django_admin.site._registry[m], ReadOnlyAdmin)]
SEARCH_MARKS = "=^@"


@pytest.fixture
def browser(admin: User, client_of: Callable[[User], Client]) -> Client:
    """The admin's browser."""
    return client_of(admin)


def masked_in(model: Any) -> set[str]:
    """Return the columns that the model's admin masks, for at least some rows."""
    shown = django_admin.site._registry.get(model)
    return shown.hidden_columns() if isinstance(shown, ReadOnlyAdmin) else {"password"}


def is_masked(model: Any, path: str) -> bool:
    """Return whether the text at the end of `path` is masked; a relation ends at its key."""
    field = get_fields_from_path(model, path)[-1]
    return not field.is_relation and field.name in masked_in(field.model)


def filters_of(model: Any) -> set[str]:
    """Return the paths that the list's own filters ask by, its date hierarchy and its key."""
    shown = django_admin.site._registry[model]
    own = [one[0] if isinstance(one, tuple) else one for one in shown.list_filter]
    return {str(path) for path in own if isinstance(path, str)} | {model._meta.pk.name}


def lookups_of(model: Any) -> Iterator[str]:
    """Return a lookup of each column of the model, and of each model one relation away."""
    for field in model._meta.get_fields():
        name = field.name
        if not field.is_relation:
            yield f"{name}__startswith"
            continue
        if field.related_model is not None:
            yield from (
                f"{name}__{far.name}__startswith"
                for far in field.related_model._meta.get_fields()
                if not far.is_relation
            )


@pytest.mark.parametrize("model", [*BEACONS, User], ids=lambda model: model.__name__)
def test_no_column_can_be_looked_up_by_the_beginning_of_its_text(
    browser: Client, model: Any
) -> None:
    answers = {
        lookup: browser.get(listed(model), {lookup: "a"}).headers.get("Location", "")
        for lookup in lookups_of(model)
    }

    assert {lookup: to for lookup, to in answers.items() if not to.endswith("?e=1")} == {}


@pytest.mark.parametrize("model", [*BEACONS, User], ids=lambda model: model.__name__)
def test_what_is_filtered_searched_or_sorted_by_is_shown_unmasked(model: Any) -> None:
    shown = django_admin.site._registry[model]
    searched = {str(path).lstrip(SEARCH_MARKS) for path in shown.search_fields}
    ordered = {path.lstrip("-") for path in shown.ordering or model._meta.ordering}
    requested_by = filters_of(model) | searched | ordered

    assert {path for path in requested_by if is_masked(model, path)} == set()


def test_the_lists_own_filters_and_a_key_still_work(browser: Client, alice: User) -> None:
    topic = one_of_each(alice)
    note = Note.objects.latest("created")
    asked = {"kind__exact": note.kind, "sensitivity__exact": "sensitive", "id": str(note.pk)}

    found = browser.get(listed(Note), asked)
    in_month = browser.get(listed(Note), {"created__year": note.created.year})
    by_topic = browser.get(listed(TopicFact), {"q": str(topic.pk)})

    assert [page.status_code for page in (found, in_month, by_topic)] == [200] * 3
    assert f"/admin/memory/note/{note.pk}/change/" in found.content.decode()
    assert str(topic.facts.get().pk) in by_topic.content.decode()


def test_a_masked_text_cannot_be_searched_for(browser: Client, alice: User) -> None:
    topic = one_of_each(alice)

    shown = browser.get(listed(Topic), {"q": topic.slug}).content.decode()

    assert str(topic.pk) not in shown


def test_sorting_by_any_column_puts_masked_texts_in_no_order(
    rf: RequestFactory, admin: User, alice: User
) -> None:
    one_of_each(alice)

    for model in BEACONS:
        shown = django_admin.site._registry[model]
        for place, name in enumerate(shown.list_display):
            request = rf.get(listed(model), {"o": str(place)})
            request.user = admin
            found = shown.get_changelist_instance(request)
            masked = name in masked_in(model) or str(name).startswith("shown_")
            list(found.result_list)  # Postgres accepts the order
            assert not (masked and found.get_ordering_field(name)), f"{model}: {name}"


@pytest.mark.parametrize(
    "model",
    # All models have the same two views.
    [pytest.param(one, marks=() if n < 8 else pytest.mark.long) for n, one in enumerate(BEACONS)],
    ids=lambda model: model.__name__,
)
def test_the_admins_other_pages_name_no_masked_row(
    browser: Client, alice: User, model: Any
) -> None:
    one_of_each(alice)
    row = model._default_manager.first()
    history = changed(row).replace("/change/", "/history/")
    pages = [browser.get(history)]
    for field in model._meta.fields:
        asked = {"app_label": model._meta.app_label, "model_name": model._meta.model_name}
        pages.append(browser.get("/admin/autocomplete/", asked | {"field_name": field.name}))

    assert [page.status_code for page in pages] == [404] * len(pages)
    assert not any(SECRET_TEXT in page.content.decode() for page in pages)
