"""Text in real documentation that isn't a finding: log lines, parameter lists, cut sentences."""

from __future__ import annotations

import pytest

from beacon_site.text.sentences import sentences
from research.claims.candidates import begins_with_reference, is_chatter


@pytest.mark.parametrize(
    "sentence",
    [
        "Fix pool timeout to account for the total time that is spent retrying.",
        'Fix "git checkout --recurse-submodules" of a hierarchy of submodules that is nested.',
        "Calls from the main thread can now return the status of a deadlock (Jane Doe) #32689.",
        "Added a new function that reads into several buffers at the same time.",
        "Returns the current high resolution millisecond timestamp of the process.",
        "Called when the promise receives a resolution or rejection value from another one.",
        "framesSent The number of HTTP/2 frames that were sent by the session so far.",
        "only-if-needed - packages are only upgraded if they are named in the command.",
        "0.14.0 (2026-03-27) This is really just a release that bumps its dependencies.",
        "Fixes since v2.14.4 ------------------- Submodules' addresses come from the untrusted file.",
        "Increase of this number over time indicates that memory leaks somewhere in the program.",
        "If used in the publish command, this is the tag that will be added to the package.",
        "The value that init should use by default for the package version number of a project.",
        "When creating a token with the command, grants the token access to all of the packages.",
        "Portability fixes: improve the build with an old compiler, fix the build on AIX as well.",
        "Used with the list command, limiting output to only those packages that are linked.",
    ],
)
def test_what_a_log_or_a_parameter_list_says_is_no_finding(sentence: str):
    assert is_chatter(sentence) or begins_with_reference(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        '"git submodule status" misbehaved on a submodule that was removed from the working tree.',
        "The number of deaths on the roads fell by 4 percent in the first half of 2026.",
        "Changes to process.env will not be visible across Worker threads of the same process.",
        "Support for PostgreSQL 13 ended with the minor release of November 2025 for everyone.",
        "The value of the company rose to 3 billion euros after the offering was closed.",
        "Updates that repair five vulnerabilities were published for all supported versions.",
        "When the lease runs out, calls are answered by the second of the two servers.",
        "Set pieces decided the match, as three of the four goals came from corners.",
    ],
)
def test_what_states_something_stays(sentence: str):
    assert not is_chatter(sentence) and not begins_with_reference(sentence)


def test_a_sentence_is_not_cut_inside_a_name():
    text = (
        'The interaction of "git submodule update" and submodule.*.update was not clear. It is now.'
    )
    assert sentences(text)[0].text.endswith("submodule.*.update was not clear.")


def test_words_in_angle_brackets_stay_and_elements_go():
    text = "The command clone <repository> makes a <b>copy</b> of all that the other side has."
    assert "clone <repository> makes a copy" in sentences(text)[0].text


def test_references_of_restructuredtext_lose_their_underscore():
    text = "The pytest_ framework makes it easy to write small tests, under the MIT_ license."
    assert sentences(text)[0].text.startswith("The pytest framework")


def test_a_chinese_sentence_with_a_name_in_capitals_is_no_list():
    assert not is_chatter("TUNA 镜像站将不定期检视空间利用情况，并可能在未来继续移除任何内容。")
    assert not is_chatter("此刻推荐的稳定基线是 2023Q1。")
    assert is_chatter("HOME DOCS BLOG ABOUT NEWS contact us")
