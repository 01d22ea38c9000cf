"""No URL from the web can reach a neighboring machine."""

from __future__ import annotations

import itertools
import socket
import threading

import pytest

from beacon_site.net import address_guard
from beacon_site.net.address_guard import ForbiddenAddress, GuardedBackend, check_url, is_forbidden
from beacon_site.net.bounded import Limits, Meter
from beacon_site.net.errors import ProviderRejected, ProviderUnavailable
from beacon_site.net.fetch import GuardedFetcher
from tests.conftest import Say
from tests.providers.raw_server import RawServer, http


def words(text: str) -> list[str]:
    """The words of a text, so that long lists stay readable."""
    return text.split()


SPECIAL = words("""
0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.100.100.200 100.127.255.255 127.0.0.1
127.255.255.254 168.63.129.16 169.254.0.1 169.254.169.254 169.254.170.2 172.16.0.1 172.31.255.255
192.0.0.1 192.0.0.8 192.0.0.9 192.0.0.10 192.0.0.170 192.0.0.192 192.0.2.1 192.31.196.1
192.52.193.1 192.88.99.1 192.88.99.2 192.168.0.1 192.168.255.255 192.175.48.1 198.18.0.1
198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1 224.0.1.1 239.255.255.255 240.0.0.1
255.255.255.254 255.255.255.255
:: ::1 ::2 ::127.0.0.1 ::8.8.8.8 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:8.8.8.8 ::ffff:0:127.0.0.1
::ffff:0:8.8.8.8 64:ff9b::7f00:1 64:ff9b::808:808 64:ff9b:1::1 64:ff9b:1:ffff::a00:1 100::1
100:0:0:1::1 2001::1 2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:1::1 2001:2::1 2001:3::1 2001:4:112::1
2001:10::1 2001:20::1 2001:30::1 2001:db8::1 2002::1 2002:7f00:1:: 2002:a00:1:: 2002:808:808::1
3fff::1 4000::1 5f00::1 8000::1 fc00::1 fd00:ec2::254 fdff::1 fe80::1 fe80::1%eth0 febf::1 fec0::1
feff::1 ff01::1 ff02::1 ff0e::1 2606:4700::1111%1
""")
PUBLIC = "1.1.1.1 8.8.8.8 93.184.216.34 100.63.255.255 172.32.0.1 2606:4700::1111 2a00:1450:4001::1"

NOTATIONS = words("""
127.0.0.1 127.1 127.0.1 2130706433 017700000001 0177.0.0.1 0x7f000001 0x7f.0.0.1 0x7F.1 0x7f.0x0.0x0.0x1
0 0.0.0.0 00.0 4294967295 10.0.0.1 167772161 3232235521 169.254.169.254 2852039166 0xa9fea9fe
0251.0376.0251.0376 8.8.8.8 134744072 127.0.0.1. 1.1.1.1. 0x 99999999999 256.256.256.256 1.2.3.4.5
example.0x7f [::1] [::] [::ffff:127.0.0.1] [::ffff:7f00:1] [fe80::1] [0:0:0:0:0:0:0:1] [2606:4700::1111]
127。0。0。1 １２７.0.0.1 ①②⑦.0.0.1 localhost localhost. intranet db redis 127%2e0%2e0%2e1 %31%32%37.0.0.1
a..b .example.org exa%00mple.org exa_mple..com
""")


@pytest.mark.parametrize("address", SPECIAL)
def test_no_special_address_is_public(address: str):
    assert is_forbidden(address)


@pytest.mark.parametrize("address", PUBLIC.split())
def test_public_addresses_are_let_through(address: str):
    assert not is_forbidden(address)


def test_the_list_of_special_addresses_is_long_enough_to_mean_something():
    assert len(set(SPECIAL)) >= 60


@pytest.mark.parametrize("host", NOTATIONS)
def test_a_host_written_as_a_number_or_without_a_dot_is_refused(host: str):
    with pytest.raises(ForbiddenAddress):
        check_url(f"http://{host}/")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.org",
        "//example.org/",
        "ftp://example.org/",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "data:text/html,x",
        "gopher://example.org:80/",
        "http://",
        "http:///x",
        "http:example.org",
        "http://user@example.org/",
        "http://user:word@example.org/",
        "http://example.org@127.0.0.1/",
        "http://example.org\\@127.0.0.1/",
        "http://example.org/\\x",
        "http://exam\tple.org/",
        "http://example.org/\r\nX: y",
        "http://example.org/\x00",
        "http://example.org/\x7f",
        "http://example.org/\u202e",
        "http://example.org/\ud800",
        "http://example.org:22/",
        "http://example.org:8080/",
        "http://example.org:0/",
        "http://example.org:99999/",
        "http://example.org:-1/",
        "http://[::1/",
        "http://xn--.example.org/",
        "http://xn--a.example.org/",
        "http://example.org/" + "a" * 2040,
    ],
)
def test_a_url_that_breaks_a_rule_is_refused_with_a_sentence(url: str):
    with pytest.raises(ForbiddenAddress) as refusal:
        check_url(url)

    assert str(refusal.value).endswith(".")


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org",
        "https://example.org:443/a?b=c#d",
        "http://example.org:80/",
        "https://www.bücher.example/ä b",
        "https://xn--bcher-kva.example/",
        "http://3.example.org/",
        "http://example.org./",
        "https://人工智能.example/新",
        "http://my_host.example.org/",
        " http://example.org/ ",
    ],
)
def test_ordinary_addresses_are_let_through(url: str):
    assert check_url(url).host


def test_an_allowed_host_can_be_numeric_and_on_any_port():
    allowed = frozenset({"127.0.0.1:8888", "[::1]:9000", "searxng:8080"})

    for url in ("http://127.0.0.1:8888/", "http://[::1]:9000/x", "http://searxng:8080/"):
        assert check_url(url, allowed)


@pytest.mark.parametrize("url", ["http://127.0.0.1:8889/", "http://127.0.0.1/", "http://db:8080/"])
def test_an_allowance_is_for_one_port_of_one_host(url: str):
    with pytest.raises(ForbiddenAddress):
        check_url(url, frozenset({"127.0.0.1:8888", "searxng:8080"}))


def test_an_allowed_host_still_takes_no_password_in_its_address():
    with pytest.raises(ForbiddenAddress):
        check_url("http://me:word@127.0.0.1:8888/", frozenset({"127.0.0.1:8888"}))


def backend(answers: list[str], **options: object) -> GuardedBackend:
    return GuardedBackend(Meter(Limits()), resolver=lambda _host, _port: answers, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("address", SPECIAL)
def test_a_name_that_leads_to_a_special_address_is_not_connected(address: str):
    with pytest.raises(ForbiddenAddress, match=r"isn’t a public address"):
        backend([address]).connect_tcp("news.example.org", 80)


@pytest.mark.parametrize(
    "answers",
    [
        ["93.184.216.34", "127.0.0.1"],
        ["127.0.0.1", "93.184.216.34"],
        ["2606:4700::1111", "::ffff:10.0.0.1"],
        ["1.1.1.1", "8.8.8.8", "169.254.169.254"],
        ["93.184.216.34", "no address"],
    ],
)
def test_one_bad_answer_among_good_ones_refuses_the_name(answers: list[str]):
    with pytest.raises(ForbiddenAddress):
        backend(answers).connect_tcp("news.example.org", 80)


def test_a_name_that_changes_between_look_ups_reaches_no_private_server():
    with RawServer(http(b"<p>secret</p>")) as private:
        answers = iter([["127.0.0.1"], ["93.184.216.34"], ["127.0.0.1"]])
        fetcher = GuardedFetcher(
            allow_hosts=frozenset(), resolver=lambda _host, _port: next(answers)
        )
        with pytest.raises(ForbiddenAddress):
            fetcher.fetch("http://rebind.example.org/")

        assert private.received == 0


@pytest.mark.parametrize("host", ["127.0.0.1", "2130706433", "0x7f.1", "localhost", "[::1]"])
def test_an_address_of_this_machine_reaches_nothing(host: str):
    with RawServer(http(b"<p>secret</p>")) as private:
        fetcher = GuardedFetcher(allow_hosts=frozenset())
        with pytest.raises(ForbiddenAddress):
            fetcher.get_bytes(f"http://{host}:{private.port}/")

        assert private.received == 0


# What a name leads to, look-up by look-up.
LOOK_UPS = [
    ["127.0.0.1"], ["93.184.216.34", "127.0.0.1"], ["127.0.0.1", "93.184.216.34"],
    ["::ffff:127.0.0.1"], ["::1", "2606:4700::1111"], ["0.0.0.0"],
]  # fmt: skip


@pytest.mark.faults
def test_look_ups_that_change_or_mix_reach_no_private_server(
    monkeypatch: pytest.MonkeyPatch, say: Say
):
    with RawServer(http(b"<p>secret</p>")) as private:
        # The port of the server is taken for one of the web's, so that only the address decides.
        monkeypatch.setitem(address_guard.PORTS, "web", private.port)
        answers = itertools.cycle(LOOK_UPS)
        fetcher = GuardedFetcher(
            allow_hosts=frozenset(), resolver=lambda _host, _port: next(answers)
        )
        for _time in range(60):
            with pytest.raises(ForbiddenAddress, match="isn’t a public address"):
                fetcher.get_bytes(f"http://rebind.example.org:{private.port}/")
        reached = private.received
        say(
            "a name that resolves to a new private address at each lookup, with or without public ones",
            "0 bytes reach the private server",
            f"60 fetches rejected, {reached} bytes reached it",
        )

        assert reached == 0


def test_the_address_that_was_judged_is_the_one_connected_to():
    asked: list[str] = []

    def resolver(host: str, _port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["10.0.0.1"]

    with RawServer(http(b"<p>Fine.</p>")) as server:
        name = f"allowed.example.org:{server.port}"
        fetcher = GuardedFetcher(allow_hosts=frozenset({name}), resolver=resolver)
        page = fetcher.get_bytes(f"http://{name}/")

    assert page.content == b"<p>Fine.</p>"
    assert asked == ["allowed.example.org"]
    assert f"host: {name}".encode() in server.requests[0].lower()


def test_a_resolver_that_hangs_is_given_up_on():
    released = threading.Event()

    def hanging(_host: str, _port: int) -> list[str]:
        released.wait(60)
        return ["1.1.1.1"]

    stuck = GuardedBackend(Meter(Limits()), resolver=hanging, connect_seconds=0.2)
    with pytest.raises(ProviderUnavailable, match="took longer than"):
        stuck.connect_tcp("slow.example.org", 80)
    assert not released.is_set()
    released.set()


@pytest.mark.parametrize(
    ("number", "kind"),
    [(socket.EAI_AGAIN, ProviderUnavailable), (socket.EAI_NONAME, ProviderRejected)],
)
def test_a_name_that_is_not_found_is_told_from_a_network_that_is_down(number: int, kind: type):
    def failing(_host: str, _port: int) -> list[str]:
        raise socket.gaierror(number, "no")

    with pytest.raises(kind):
        GuardedBackend(Meter(Limits()), resolver=failing).connect_tcp("gone.example.org", 80)


def test_the_second_address_is_tried_when_the_first_does_not_answer():
    with RawServer(http(b"<p>x</p>")) as server:
        allowed = frozenset({f"two.example.org:{server.port}"})
        two = backend(["::1", "127.0.0.1"], allow_hosts=allowed)
        stream = two.connect_tcp("two.example.org", server.port)
        reached = stream.get_extra_info("server_addr")
        stream.close()

    assert reached[0] == "127.0.0.1"
