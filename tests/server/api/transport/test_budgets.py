"""The accounts of what all clients, and one client, may hold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scanline.server.api.transport.budgets import Budgets, SharedLimit
from scanline.server.settings import Settings


def test_one_client_gets_its_share_and_all_together_the_limit() -> None:
    budget = SharedLimit(10, 0.5)
    budget.add("a", 5)
    assert budget.has_room("a")
    assert not budget.has_room("a", 1)
    assert budget.has_room("b", 5)
    budget.add("b", 5)
    assert not budget.has_room("c", 1)
    budget.add("a", -1)
    assert budget.has_room("c", 1)
    assert SharedLimit(1, 0.5).has_room("a", 1), "a share is at least one"
    budget = SharedLimit(10, 0.5)
    budget.add(None, 9)  # connections of proxies are limited by the process only
    assert (budget.has_room(None, 1), budget.has_room(None, 2)) == (True, False)


@given(st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.integers(1, 9))))
def test_what_is_given_back_leaves_nothing(amounts: list[tuple[str | None, int]]) -> None:
    budget = SharedLimit(20, 0.5)
    for client, amount in amounts:
        budget.add(client, amount)
    assert budget.used == sum(amount for _, amount in amounts)
    for client, amount in reversed(amounts):
        budget.add(client, -amount)
    assert (budget.used, dict(budget.by_client)) == (0, {})


CLIENTS = {  # by address; None is a proxy
    **{"192.0.2.7": "192.0.2.7", "::ffff:192.0.2.7": "192.0.2.7"},  # an IPv4 client of a socket for both
    **{"2001:db8:1:2:3:4:5:6": "2001:db8:1:2::/64", "fe80::1%eth0": "fe80::/64"},
    **{"10.1.2.3": None, "2001:db8:ffff::9": None, "": ""},  # a unix socket, unless it is a proxy
}


@pytest.mark.parametrize(("address", "client"), CLIENTS.items())
def test_a_client_is_an_address_or_an_ipv6_network_unless_it_is_a_proxy(address: str, client: str | None) -> None:
    budgets = Budgets(Settings(trusted_proxies=("10.0.0.0/8", "2001:db8:ffff::9")))
    assert budgets.client(address) == client
    assert Budgets(Settings(trusted_proxies=("unix",))).client("") is None
