"""A client that sends much at once has a part of it parsed in one iteration of the event loop."""

import asyncio
from time import perf_counter

from scanline.server.api.transport.parse_quota import QUOTA_SECONDS, ParseQuotas


def test_a_client_whose_connections_take_long_has_one_of_them_parsed_in_an_iteration() -> None:
    async def parsed_by_iteration() -> list[list[str]]:
        quotas, parsed = ParseQuotas(), [[]]

        def receive(connection: str) -> None:
            def parse() -> None:
                parsed[-1].append(connection)
                began = perf_counter()
                while perf_counter() < began + QUOTA_SECONDS:
                    pass

            # "many 1" is a connection of the client "many"; a trusted proxy, whose clients are many, has no quota.
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


def test_a_quota_ends_with_the_first_request_that_is_to_be_handled() -> None:
    """Its handling takes several times as long as its parsing: others do not wait for that of 64 requests."""

    async def begun_by_iteration() -> list[int]:
        quotas, begun = ParseQuotas(), [0]

        def parse() -> None:
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
