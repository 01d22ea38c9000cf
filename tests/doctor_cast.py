"""Who asks the doctor in tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.core.cache import cache

from memory.doctor import checkup, examining
from memory.doctor.examining import Finding


@pytest.fixture(autouse=True)
def _no_word_is_left() -> Iterator[None]:
    """What the doctor found stands on the Health page of the next test, too."""
    yield
    cache.delete(checkup.LAST_EXAMINED)


def asked(key: str, *, fix: bool = False) -> Finding:
    """Let the doctor look at one thing."""
    (one,) = [one for one in examining.EXAMINATIONS if one.key == key]
    return examining._examined(one, fix=fix)


def is_found_and_mended(key: str, said: str) -> Finding:
    """The drift is found, with why it matters; mended by --fix; then nothing is left, or to do."""
    found = asked(key)
    assert found.state in (checkup.WARN, checkup.BAD) and said in found.said, found
    assert found.matters and "--fix" in found.todo
    mended = asked(key, fix=True)
    assert (mended.state, bool(mended.mended)) == (checkup.GOOD, True), mended
    again = asked(key, fix=True)
    assert (again.state, again.mended) == (checkup.GOOD, "")
    return mended
