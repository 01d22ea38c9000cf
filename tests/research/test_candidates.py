"""Text in real documentation that isn't a finding: log lines, parameter lists, cut sentences."""

from __future__ import annotations

import pytest

from beacon_site.text.sentences import sentences
from research.claims.candidates import (
    begins_with_reference,
    is_about_page,
    is_chatter,
    needs_previous,
    refers_elsewhere,
)


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
def test_what_a_log_or_a_parameter_list_says_isnt_a_finding(sentence: str):
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


def test_a_chinese_sentence_with_a_name_in_capitals_isnt_a_list():
    assert not is_chatter("TUNA 镜像站将不定期检视空间利用情况，并可能在未来继续移除任何内容。")
    assert not is_chatter("此刻推荐的稳定基线是 2023Q1。")
    assert is_chatter("HOME DOCS BLOG ABOUT NEWS contact us")


@pytest.mark.parametrize(
    ("language", "sentence"),
    [
        ("en", "It uses the Argon2 key derivation function."),
        ("en", "Customers with version 5.15 should install this upgrade first."),
        ("en", "Almost all of them become committers."),
        ("de", "Beim Reisen kann dieses Problem auch mit anderen Pumpen auftreten."),
        ("es", "La junta decide el uso de ese presupuesto en abril."),
        ("de", "In diesen Fällen wird der Lohn bis zum 15. des Monats gezahlt."),
        ("fr", "Dans ce cas, la durée de conservation est de cinq ans."),
        ("es", "En consecuencia, el plazo termina a los 90 días."),
        ("pt", "Neste caso, o prazo é de 90 dias."),
        ("zh", "根据上述方式，可以依次排查原因。"),
        ("ja", "このような場合は、通知が送信されません。"),
    ],
)
def test_a_sentence_that_refers_back_needs_the_one_before_it(language: str, sentence: str):
    assert needs_previous(sentence, language)


@pytest.mark.parametrize(
    ("language", "sentence"),
    [
        (
            "en",
            "Version 5.16 has an upgrade of TLS, and customers should install this upgrade first.",
        ),
        ("en", "The council meets this year and decides about the budget."),
        ("en", "Most of the committers work for a company."),
        ("de", "Ein Problem mit der Pumpe meldet die App, sobald dieses Problem auftritt."),
        ("de", "Zusätzlich zum Überschuss lädt die Wallbox nachts mit günstigem Strom."),
        ("fr", "Dans la région, la durée de conservation est de cinq ans."),
        ("es", "En España, el plazo termina a los 90 días."),
        ("zh", "在中国，慢查询日志默认开启。"),
        ("ja", "通知チャンネルは最大10件まで登録できます。"),
    ],
)
def test_a_sentence_with_its_own_subject_needs_no_other(language: str, sentence: str):
    assert not needs_previous(sentence, language)


@pytest.mark.parametrize(
    "sentence",
    [
        "In the example above, the first password is used.",
        "The following services are affected by the change:",
        "The publication of open data has several steps (cf.",
        "Absatz 1 gilt nicht für die Entgeltansprüche der Arbeitnehmer.",
        "Wie folgt wird der Tarif berechnet.",
        "Les champs sont décrits ci-dessous.",
        "Los campos se describen a continuación.",
        "Os campos são descritos abaixo.",
        "处理过程如下图所示。",
        "エラーメッセージは、以下のパターンで作成します。",
    ],
)
def test_a_reference_to_another_part_of_the_page_is_seen(sentence: str):
    assert refers_elsewhere(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "The price rose in the following year.",
        "Artikel 5 Absatz 1 der Verordnung verbietet die Speicherung.",
        "Im Satz ist das Trinkgeld enthalten.",
        "The quota (5 TiB) is checked every night.",
        "上下文长度增加到 20 万个词元。",
    ],
)
def test_other_sentences_refer_to_nothing_on_the_page(sentence: str):
    assert not refers_elsewhere(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "This guide explains how billing works in practice.",
        "More information can be found on the page about parental leave.",
        "See the billing reference for all limits.",
        "Diese Seite beschreibt die Einrichtung der Wallbox.",
        "Weitere Informationen finden Sie auf der Website.",
        "Cette page présente les obligations des administrations.",
        "Esta guía explica los pasos de la instalación.",
        "Esta página descreve os limites da conta.",
        "本页面列举了一些常见的优化方法。",
        "要处理慢查询，参阅分析慢查询。",
        "詳しくはヘルプページをご覧ください。",
    ],
)
def test_what_a_page_says_about_itself_is_seen(sentence: str):
    assert is_about_page(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "Users see how much storage is left.",
        "This page limit was raised from 20 to 30 pages.",
        "Die Website der Stadt zeigt die Wasserqualität aller Badeseen.",
        "新版本文件的大小上限为 10 MB。",
        "日本文化庁は基準を改定しました。",
    ],
)
def test_what_is_about_the_subject_is_not_about_the_page(sentence: str):
    assert not is_about_page(sentence)
