"""Prints how many of 150 connections a client may open that closes each at once."""

import time

from support import close, connect, until_it_listens


def open_and_close(source):
    for opened in range(150):
        connection = connect(source, timeout=0.9)
        if not connection:
            return opened
        close(connection)
        time.sleep(0.01)
    return 150


until_it_listens()
for source in ["10.9.0.4", "fd00:9:3:1::2"]:
    print(source, open_and_close(source), "in turn")
