"""Prints how many of 150 connections a client may open that closes each at once, and for the last packet of how many of
them the server waits a second later."""

import time

from support import connect, run_at_server, until_it_listens


def open_and_close(source):
    for opened in range(150):
        connection = connect(source, timeout=0.9)
        if not connection:
            return opened
        connection.close()
        time.sleep(0.01)
    return 150


until_it_listens()
for source in ["10.9.0.4", "fd00:9:3:1::2"]:
    print(source, open_and_close(source), "in turn")
time.sleep(1)
waiting = run_at_server("ss", "--tcp", "--no-header", "state", "last-ack").splitlines()
print("waiting for their last packet:", len(waiting))
