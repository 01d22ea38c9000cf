"""The table of guards: what each promises, how to remove it, and which test then fails.

Each test named here is run a second time under its guard's name, without the guard, and must
fail then (unguarded.py).  A test that passes with or without its guard shows nothing
of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.faults import removed_guards as out
from tests.faults.removed_guards import Patch


@dataclass(frozen=True, slots=True)
class Guard:
    """One guard; `out` removes it, and `test` is the ID of a test that fails without it.

    `also` names what else than an assertion may be what the test fails by.
    """

    name: str
    holds: str
    without: str
    out: Callable[[Patch], None]
    test: str
    long: bool = False
    also: tuple[str, ...] = ()

    @property
    def test_name(self) -> str:
        name = self.test.rpartition("::")[2].partition("[")[0]
        return f"`{name}`"


RESUME, SENDING = "tests/research/test_resume.py", "tests/research/test_sending.py"
OUTBOX, PROBLEMS = "tests/research/test_outbox.py", "tests/api/test_problems.py"
ROUTES, BASE = "tests/api/test_every_route.py", "tests/memory/test_base.py"
ADDRESSES, HOSTILE = "tests/pages/test_every_address.py", "tests/providers/test_fetch_hostile.py"
EXTRACT, GUARD = "tests/providers/test_extract.py", "tests/providers/test_address_guard.py"
ARCHIVES, TOKENS = "tests/memory/test_archive_input.py", "tests/api/test_tokens.py"
SHOWN = "tests/api/test_shown.py"

GUARDS = (
    Guard(
        "fence",
        "a worker writes to a run only while it has the lease",
        "writes aren't checked",
        out.fence,
        f"{RESUME}::test_each_write_of_the_run_asks_for_the_fence",
    ),
    Guard(
        "lease",
        "only one worker has a run until its lease ends",
        "every worker gets the run",
        out.lease,
        f"{RESUME}::test_of_two_claims_one_gets_the_run",
    ),
    Guard(
        "lease (messages)",
        "a message delivered twice is processed once",
        "every worker gets the run",
        out.lease,
        f"{RESUME}::test_a_message_delivered_twice_is_carried_out_once",
        also=("JobLost", "IntegrityError", "LookupError", "IndexError"),
    ),
    Guard(
        "lease tick",
        "a run is released if its worker is gone",
        "no run is released",
        out.lease_tick,
        f"{RESUME}::test_a_run_whose_lease_ran_out_is_queued_again",
    ),
    Guard(
        "outbox",
        "a lost message is sent again",
        "nothing is sent again",
        out.outbox,
        f"{OUTBOX}::test_the_tick_sends_what_could_not_be_sent",
    ),
    Guard(
        "claim of a slot, unique slot",
        "one run per topic and time",
        "the claim ignores the time, and both constraints are dropped",
        out.slot,
        "tests/research/test_scheduling.py::test_of_two_beats_one_starts_the_run",
    ),
    Guard(
        "follow-ups once",
        "follow-up steps run once",
        "every worker gets the follow-up",
        out.follow_up,
        f"{OUTBOX}::test_a_follow_up_is_sent_and_carried_out_once",
        also=("IndexError",),
    ),
    Guard(
        "notices once",
        "a message delivered twice sends one email",
        "every worker gets the delivery, and sending isn't recorded",
        out.notice,
        f"{SENDING}::test_delivered_twice_and_laid_out_twice_it_arrives_once",
    ),
    Guard(
        "notices: handed over",
        "an email that may have arrived isn't sent again",
        "sending isn't recorded",
        out.handing_over,
        f"{SENDING}::test_a_worker_lost_after_the_email_was_handed_over_sends_none_twice",
    ),
    Guard(
        "version of a record",
        "the second of two writers of one version is rejected",
        "versions aren't compared",
        out.versions,
        f"{BASE}::test_of_two_writers_the_second_is_refused_and_loses_nothing",
        also=("IntegrityError",),
    ),
    Guard(
        "locks",
        "only people can change what a person locked",
        "the lock isn't checked",
        out.locks,
        f"{BASE}::test_what_is_locked_only_a_person_changes_and_unlocks[by1-read-only]",
    ),
    Guard(
        "Idempotency-Key",
        "a request sent twice is processed once",
        "the key is ignored",
        out.idempotency,
        "tests/api/test_idempotency.py::test_the_same_request_is_answered_the_same_again",
    ),
    Guard(
        "noted reading",
        "untrusted text that an agent sees lowers the trust of its next writes",
        "nothing that it sees is recorded",
        out.reading,
        f"{SHOWN}::test_the_text_in_a_refused_write_is_noted_too",
    ),
    Guard(
        "trust of writes",
        "an agent's writes get at most the trust of the text it read",
        "all its writes are stored with the agent's own trust",
        out.write_trust,
        f"{SHOWN}::test_a_write_is_stored_with_the_trust_of_what_was_read[set_entry]",
    ),
    Guard(
        "answers to tokens that only write",
        "a token without the scope read gets no stored text",
        "it gets the same answers as a token that can read",
        out.write_only,
        "tests/api/test_write_only.py::test_a_refusal_quotes_only_what_was_sent",
    ),
    Guard(
        "kept answers",
        "a stored answer doesn't repeat text that was hidden later",
        "the answer is repeated unchanged",
        out.withholding,
        f"{SHOWN}::test_a_kept_answer_does_not_repeat_what_was_hidden_since[sensitivity]",
    ),
    Guard(
        "CSRF token",
        "forms on other sites can't act for a person",
        "the token is ignored",
        out.csrf,
        "tests/pages/test_urls.py::test_a_post_without_its_token_is_refused",
        long=True,
    ),
    Guard(
        "GET changes nothing",
        "opening a URL changes nothing",
        "pages that require POST also accept GET",
        out.safe_get,
        f"{ADDRESSES}::test_looking_at_a_page_changes_no_row_and_asks_few_questions",
        long=True,
    ),
    Guard(
        "CSP",
        "pages run only Beacon's scripts",
        "the header isn't sent",
        out.csp,
        "tests/api/test_rules.py::test_the_documents_are_open_and_lie_on_this_server[/openapi.json]",
        also=("KeyError",),
    ),
    Guard(
        "owner filter (pages)",
        "a person's rows don't exist for others",
        "`for_user(user)` returns all rows",
        out.owner,
        f"{ADDRESSES}::test_what_is_alices_is_not_there_for_bob_by_any_method",
        long=True,
    ),
    Guard(
        "owner filter (API)",
        "a person's rows don't exist for others",
        "`for_user(user)` returns all rows",
        out.owner,
        f"{ROUTES}::test_what_is_of_one_owner_is_not_there_for_another",
        long=True,
    ),
    Guard(
        "scopes of a token",
        "a token works only within its scope",
        "every token has every scope",
        out.scopes,
        f"{ROUTES}::test_a_token_of_a_lesser_scope_opens_no_address",
        long=True,
    ),
    Guard(
        "end of a token",
        "a revoked token opens nothing",
        "revoked tokens are accepted",
        out.revoking,
        f"{TOKENS}::test_a_revoked_token_opens_nothing_from_that_moment",
    ),
    Guard(
        "hash of a token",
        "the database contains no usable token",
        "the token itself is stored",
        out.token_hash,
        f"{TOKENS}::test_nothing_that_is_stored_of_a_token_opens_anything",
    ),
    Guard(
        "rate limit",
        "requests per minute and token are limited",
        "requests aren't counted",
        out.rate_limit,
        f"{PROBLEMS}::test_too_many_requests_are_told_when_to_come_again",
    ),
    Guard(
        "limit of sign-ins",
        "passwords can't be guessed one after another",
        "failures aren't counted",
        out.sign_ins,
        "tests/pages/test_accounts.py::test_after_five_failures_even_the_right_password_waits",
    ),
    Guard(
        "names of memory files",
        "only files of the closed set exist",
        "every path is accepted",
        out.file_paths,
        "tests/memory/test_files_saving.py::test_the_closed_set_holds_for_write_patch_and_append",
    ),
    Guard(
        "limits of an archive",
        "archives can't use unlimited memory or time",
        "the zip isn't checked first",
        out.archive_limits,
        f"{ARCHIVES}::test_a_zip_bomb_is_refused_before_it_is_unpacked",
        long=True,
    ),
    Guard(
        "signature of a backup",
        "backups of unknown origin are rejected",
        "the signature isn't checked",
        out.backup_signature,
        "tests/site/test_backups_refused.py::test_a_backup_that_another_key_signed_or_that_was_changed_is_restored_only_if_trusted",
        long=True,
    ),
    Guard(
        "address guard (URL)",
        "URLs with an IP address, a port or a local name aren't opened",
        "every URL is opened",
        out.urls,
        f"{GUARD}::test_an_address_of_this_machine_reaches_nothing[127.0.0.1]",
    ),
    Guard(
        "address guard (connection)",
        "names that resolve to private addresses aren't connected",
        "resolved addresses aren't checked",
        out.connections,
        f"{GUARD}::test_look_ups_that_change_or_mix_reach_no_private_server",
    ),
    Guard(
        "one deadline",
        "a fetch ends in time, however many redirects it follows",
        "each redirect gets its own time",
        out.deadline,
        f"{HOSTILE}::test_a_redirect_chain_shares_one_deadline",
        long=True,
        also=("ProviderRejected",),
    ),
    Guard(
        "bounded unpacking",
        "a page decompresses to 8 MiB at most",
        "everything is decompressed",
        out.unpacking,
        f"{HOSTILE}::test_a_page_that_unpacks_to_more_than_is_read_is_refused",
    ),
    Guard(
        "limits of the page reader (time)",
        "a page that stalls its reader is skipped",
        "the child isn't watched",
        out.reader,
        f"{EXTRACT}::test_a_reader_that_hangs_is_killed_and_replaced",
        long=True,
    ),
    Guard(
        "limits of the page reader (memory)",
        "a page that fills its reader's memory is skipped",
        "the child isn't watched",
        out.reader,
        f"{EXTRACT}::test_a_reader_that_takes_too_much_memory_is_killed",
        long=True,
    ),
)
