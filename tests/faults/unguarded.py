"""Tests and processes with one of the product's guards taken out, to see that it is noticed.

The tests that guards.py names are run a second time, each with its guard out, and fail then: that
is what their twins here pass by.  `python -m tests.faults.unguarded fence worker …` is
`celery -A beacon_site worker …` without the fence, for what only real processes show.
"""

from __future__ import annotations

import os
import sys

import pytest

from tests.faults import figures
from tests.faults.guards import GUARDS, Guard


class Unguarded(pytest.Function):
    """A test that has to fail, since its guard is out while it runs."""

    guard: Guard

    def runtest(self) -> None:
        """Pass if the test fails."""
        guard = self.guard
        told = [guard.name, guard.holds, guard.without, guard.test_name]
        try:
            self._fail_without(guard)
        finally:
            # What it measured without the guard isn't a figure of the product.
            self.user_properties[:] = [(figures.GUARD, told)]

    def _fail_without(self, guard: Guard) -> None:
        with pytest.MonkeyPatch.context() as patch:
            guard.out(patch)
            try:
                super().runtest()
            except (AssertionError, pytest.fail.Exception) as exc:
                print(f"without {guard.name}: {exc}")
                return
            except Exception as exc:
                if type(exc).__name__ not in guard.also:
                    raise
                print(f"without {guard.name}: {exc!r}")
                return
        pytest.fail(f"it passes also without {guard.name}, of which it so shows nothing")


MADE: set[str] = set()  # the guards whose tests were found in this process


def add_twins(items: list[pytest.Item]) -> None:
    """Add to the collected tests those that run without their guards."""
    is_full = os.environ.get("BEACON_TEST_FAULTS") == "full"
    wanted: dict[str, list[Guard]] = {}
    for guard in GUARDS:
        if is_full or not guard.long:
            wanted.setdefault(guard.test, []).append(guard)
    for item in list(items):
        for guard in wanted.get(item.nodeid, ()):
            items.append(_twin(item, guard))


def _twin(item: pytest.Item, guard: Guard) -> Unguarded:
    assert isinstance(item, pytest.Function)
    twin = Unguarded.from_parent(
        item.parent,
        name=f"{item.originalname} without {guard.name}",
        callspec=getattr(item, "callspec", None),
        callobj=item.obj,
        fixtureinfo=item._fixtureinfo,
    )
    twin.guard = guard
    MADE.add(guard.name)
    twin.add_marker("faults")
    return twin


def main(name: str, arguments: list[str]) -> None:
    """Take the guard out permanently and become the Celery process."""
    import django

    django.setup()
    from beacon_site.celery import app

    next(guard for guard in GUARDS if guard.name == name).out(pytest.MonkeyPatch())
    app.start(arguments)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
