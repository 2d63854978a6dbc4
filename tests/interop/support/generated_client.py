"""Buys a unit with the client that openapi-python-client made, and tries to buy another one.

Prints the number of the order and the code of the refusal.
"""

import os
import time

from stampede import AuthenticatedClient
from stampede.api.activities import get_gate
from stampede.api.buying import issue_ticket, reserve
from stampede.models import Order, Phase, Reservation, Solution, Ticket

SALE = os.environ["SALE"]
client = AuthenticatedClient(os.environ["APP"], os.environ["TOKEN"])


def until(kind, call):
    """Each function sees a new activity within two seconds (F5)."""
    for _ in range(100):
        answer = call()
        if isinstance(answer, kind):
            return answer
        time.sleep(0.1)
    raise TimeoutError(answer)


def buy():
    ticket = until(Ticket, lambda: issue_ticket.sync(SALE, client=client, body=Solution()))
    gate = get_gate.sync(SALE, client=client)
    assert gate.phase is Phase.OPEN
    body = Reservation(sku="item", quantity=1, ticket=ticket.ticket, start_key=gate.start_key)
    return reserve.sync(SALE, client=client, body=body)


order = buy()
assert isinstance(order, Order), order
print(order.order_no, buy().code)
