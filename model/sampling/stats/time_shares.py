"""Time shares: each client has an equal part of the engine's time, however many images it has in flight.

Images of one batch advance together, so a client with a thousand images would slow down everybody's by the time that
their steps take. Here each client has a balance: all clients with images in flight receive equal parts of the time that
steps take, and those whose images were stepped pay for it, in proportion to their images. Reads are paid for by those
whose images were read. A client steps while its balance is not negative. The balances add up to 0, so at least one
client always does; a client alone always does. A client that leaves with a negative balance has it again when it
returns, less its shares of the time meanwhile. The idea is that of fair queueing (Demers, Keshav and Shenker, 1989).
"""

from collections.abc import Mapping

ROUNDING = 1e-9  # seconds
MAX_DEBTS = 1000


class TimeShares:
    """Invariant: the balances of the clients with images in flight add up to 0, up to rounding."""

    def __init__(self, overdraft: float = ROUNDING) -> None:
        """`overdraft`: seconds by which a balance may be negative before its client steps no more."""
        self.overdraft = overdraft
        self.balances: dict[str, float] = {}  # seconds
        self.debts: dict[str, float] = {}  # negative balances of clients that have left

    def next(self, images: Mapping[str, int]) -> set[str]:
        """Return the clients whose images step next; `images` counts those in flight of every client, at least one
        each."""
        self._update(images)
        return {client for client, balance in self.balances.items() if balance >= -self.overdraft}

    def spent(self, seconds: float, stepped: Mapping[str, int]) -> None:
        """Share the time that steps of the images `stepped`, counted by client, have taken."""
        total, part = sum(stepped.values()), seconds / (len(self.balances) + 1)
        if self.debts:
            self.debts = {client: debt + part for client, debt in self.debts.items() if debt + part < 0}
        for client in self.balances:
            self.balances[client] += seconds / len(self.balances)
        for client, count in stepped.items():
            if client in self.balances:  # or it has left since these steps were started
                self.balances[client] -= seconds * count / total

    def charge(self, seconds: Mapping[str, float]) -> None:
        """Share the time that reads have taken; a client without images in flight has no balance, and pays nothing."""
        for client, spent in seconds.items():
            if client in self.balances:
                self.spent(spent, {client: 1})

    def _update(self, images: Mapping[str, int]) -> None:
        """Start new clients at 0 or with their debts, and divide the balance of those that have left among the
        others."""
        for client, balance in self.balances.items():
            if client not in images and balance < 0 and len(self.debts) < MAX_DEBTS:
                self.debts[client] = balance
        balances = {
            client: self.balances[client] if client in self.balances else self.debts.pop(client, 0.0)
            for client in images
        }
        rest = sum(balances.values()) / max(1, len(balances))
        self.balances = {client: balance - rest for client, balance in balances.items()}
