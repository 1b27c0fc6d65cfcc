"""The accounts of what one client and all may hold, and how much of its
bytes is parsed in one iteration.
"""

import asyncio
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scanline.server.api.base.budgets import Budgets, SharedLimit
from scanline.server.api.transport.parse_quota import QUOTA_SECONDS, ParseQuotas
from scanline.server.settings import Settings


def test_one_client_gets_its_share_and_all_together_the_limit():
    budget = SharedLimit(10, 0.5)
    steps = [
        ("a", 5, True),
        ("a", 1, False),
        ("a", -1, True),
        ("b", 2, True),
        ("b", 1, False),
        ("a", -3, True),
    ]
    steps += [
        ("b", 0, True),
        ("b", 1, True),
        ("a", 0, True),
        ("a", 1, True),
        ("a", 1, False),
        ("c", 2, False),
    ]
    for client, amount, has_room in steps:
        budget.add(client, amount)
        assert budget.has_room(client) == has_room, (client, amount)
    budget = SharedLimit(1, 0.5)
    budget.add("a", 1)
    assert budget.has_room("a"), "a share is at least one"
    budget = SharedLimit(10, 0.5)
    # connections of proxies are limited by the process only
    for amount, has_room in ((10, True), (1, False)):
        budget.add(None, amount)
        assert budget.has_room(None) == has_room


@pytest.mark.parametrize("clients", [2, 3, 5, 50])
def test_a_newcomer_has_room_however_many_have_taken_their_shares(clients):
    budget = SharedLimit(1000, 0.5)
    for _ in range(1000 // clients):  # by turns, until none may have more
        for name in map(str, range(clients)):
            budget.add(name, 1)
            if not budget.has_room(name):
                budget.add(name, -1)
    held = list(budget.by_client.values())
    assert len(held) == clients
    assert max(held) <= 1000 / (clients + 1) + 1
    for _ in range(budget.client_limit("newcomer")):
        budget.add("newcomer", 1)
        assert budget.has_room("newcomer")
    budget.add("newcomer", 1)
    assert not budget.has_room("newcomer")


@given(st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.integers(1, 9))))
def test_what_is_given_back_leaves_nothing(amounts):
    budget = SharedLimit(20, 0.5)
    for client, amount in amounts:
        budget.add(client, amount)
    assert budget.used == sum(amount for _, amount in amounts)
    for client, amount in reversed(amounts):
        budget.add(client, -amount)
    assert (budget.used, dict(budget.by_client)) == (0, {})


CLIENTS = {  # by address; None is a proxy
    # an IPv4 client of a socket for both
    "192.0.2.7": "192.0.2.7",
    "::ffff:192.0.2.7": "192.0.2.7",
    "2001:db8:1:2:3:4:5:6": "2001:db8:1:2::/64",
    "fe80::1%eth0": "fe80::/64",
    "10.1.2.3": None,
    "2001:db8:ffff::9": None,
    "": "",  # a unix socket, unless it is a proxy
}


@pytest.mark.parametrize(("address", "client"), CLIENTS.items())
def test_a_client_is_an_address_or_an_ipv6_network_unless_it_is_a_proxy(address, client):
    assert (
        Budgets(Settings(trusted_proxies=("10.0.0.0/8", "2001:db8:ffff::9"))).client(address)
        == client
    )
    assert Budgets(Settings(trusted_proxies=("unix",))).client("") is None


def test_a_client_whose_connections_take_long_has_one_of_them_parsed_in_an_iteration():
    async def parsed_by_iteration():
        quotas = ParseQuotas()
        parsed = [[]]

        def receive(connection):
            def parse():
                parsed[-1].append(connection)
                began = perf_counter()
                while perf_counter() < began + QUOTA_SECONDS:
                    pass

            # "many 1" is a connection of the client "many"; a trusted proxy,
            # whose clients are many, has no quota.
            quotas.run(None if connection.startswith("proxy") else connection.split()[0], parse)

        for connection in ("many 1", "many 2", "many 3", "other 1", "proxy 1", "proxy 2"):
            receive(connection)
        for _ in range(3):
            parsed.append([])
            await asyncio.sleep(0)
        receive("many 4")
        await asyncio.sleep(0)
        assert not quotas.of_clients, "nothing is kept of a client that sends no more"
        return parsed

    assert asyncio.run(parsed_by_iteration()) == [
        ["many 1", "other 1", "proxy 1", "proxy 2"],
        ["many 2"],
        ["many 3"],
        ["many 4"],
    ]


def test_a_quota_ends_with_the_first_request_that_is_to_be_handled():
    """Its handling takes several times as long as its parsing: others do
    not wait for that of 64 requests.
    """

    async def begun_by_iteration():
        quotas = ParseQuotas()
        begun = [0]

        def parse():
            begun[-1] += 1
            quotas.exhaust("many")

        for _ in range(4):
            quotas.run("many", parse)
        quotas.exhaust("other")  # of which nothing was parsed, and a trusted proxy's
        quotas.exhaust(None)
        while quotas.of_clients:
            begun.append(0)
            await asyncio.sleep(0)
        return begun

    assert asyncio.run(begun_by_iteration())[:4] == [1, 1, 1, 1]
