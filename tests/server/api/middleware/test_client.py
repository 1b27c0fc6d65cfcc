"""The client's address of a request: the connection's, or behind a trusted
proxy the one that the proxy reports.
"""

from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient
from structlog.contextvars import get_contextvars

from scanline.server.api.base.client import Client, canonical, client_of
from scanline.server.api.base.trusted_proxies import TrustedProxies
from scanline.server.api.middleware.client import ClientMiddleware

PROXIES = TrustedProxies(["10.0.0.0/8", "fd00::/8", "192.0.2.1"])
CASES = {  # label: the connection's address, its X-Forwarded-For headers, the client
    "no proxy": ("203.0.113.5", [], "203.0.113.5"),
    "nobody's word": ("203.0.113.5", ["198.51.100.1"], "203.0.113.5"),
    "one proxy": ("10.0.0.1", ["198.51.100.1"], "198.51.100.1"),
    "a client that writes the header": ("10.0.0.1", ["1.1.1.1, 198.51.100.1"], "198.51.100.1"),
    "two proxies": ("10.0.0.1", ["1.1.1.1, 198.51.100.1, 10.2.3.4"], "198.51.100.1"),
    "two headers": ("10.0.0.1", ["1.1.1.1", "198.51.100.1 , fd00::5"], "198.51.100.1"),
    "proxies alone": ("10.0.0.1", ["10.0.0.9"], "10.0.0.9"),
    "no header": ("10.0.0.1", [], "10.0.0.1"),
    "an empty header": ("10.0.0.1", [""], "10.0.0.1"),
    "no address": ("10.0.0.1", ["1.1.1.1, unknown"], "10.0.0.1"),
    "a port": ("10.0.0.1", ["198.51.100.1:443"], "198.51.100.1"),
    "IPv6 with a port": ("fd00::1", ["[2001:db8::0001]:443"], "2001:db8::1"),
    "IPv4 in IPv6": ("10.0.0.1", ["::ffff:198.51.100.1"], "198.51.100.1"),
    "a zone": ("10.0.0.1", ["fe80::1%x"], "10.0.0.1"),
    "a unix socket": ("", ["198.51.100.1"], ""),
}
HOPS = (
    st.sampled_from(["10.0.0.2", "unknown", "", "[::1]:5"])
    | st.ip_addresses().map(str)
    | st.text(max_size=9)
)
HEADERS = st.lists(st.lists(HOPS, max_size=5).map(",".join), max_size=3)


@pytest.mark.parametrize("label", CASES)
def test_the_client_is_the_last_address_that_no_trusted_proxy_has(label):
    peer, forwarded, client = CASES[label]
    assert PROXIES.client_address(peer, forwarded) == client


def test_a_unix_socket_is_a_trusted_proxy_where_it_is_named():
    assert TrustedProxies(["unix"]).client_address("", ["1.1.1.1, 198.51.100.1"]) == "198.51.100.1"


@given(st.one_of(st.ip_addresses().map(str), st.just("10.0.0.1")), HEADERS)
def test_any_headers_yield_an_address_and_only_proxies_are_believed(peer, forwarded):
    peer = canonical(peer)
    client = PROXIES.client_address(peer, forwarded)
    ip_address(client)
    if PROXIES.client_address(peer, ["198.51.100.1"]) == peer:  # not a proxy
        assert client == peer


def test_an_ipv6_client_is_counted_by_its_network():
    assert (
        Client("2001:db8:1:2:3:4:5:6").id
        == Client("2001:db8:1:2::9").id
        == "address 2001:db8:1:2::/64"
    )
    assert Client("203.0.113.5").id == "address 203.0.113.5"
    assert Client("2001:db8::1", "alice").id == "key alice"
    assert client_of({"client": ("::ffff:203.0.113.5", 1)}) == Client("203.0.113.5")
    assert client_of({"client": None}) == Client("")


def test_the_log_names_the_client_and_a_trusted_proxys_client():
    async def app(scope, receive, send):
        await PlainTextResponse(get_contextvars()["client"])(scope, receive, send)

    for proxies, client in (((), "127.0.0.1"), (("127.0.0.0/8",), "198.51.100.1")):
        connected = TestClient(ClientMiddleware(app, proxies), client=("127.0.0.1", 1234))
        assert (
            connected.get("/", headers={"x-forwarded-for": "1.1.1.1, 198.51.100.1"}).text == client
        )
