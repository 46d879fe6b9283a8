"""Connections that are kept open between requests: how many there are, who shares them, and when they end."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import warnings
from collections.abc import Callable

import pytest
from servers import Server, reply

from llm_dec_pomdp.agents import Remote, Request, Sampling
from llm_dec_pomdp.http import Client
from llm_dec_pomdp.types import conversation


def ask(remote: Remote, seeds: int = 1) -> list[str]:
    [answers] = remote.generate([Request("a", conversation("hello"), tuple(range(seeds)))], Sampling())
    return [answer.text for answer in answers]


def test_a_hundred_requests_share_the_connections_of_those_at_the_same_time(server: Server) -> None:
    remote = Remote(server.url, "m", concurrency=4)
    for _ in range(5):
        assert len(ask(remote, 20)) == 20
    assert len(server.asked) == 100
    assert server.connections <= 4


@pytest.mark.parametrize("copied", [copy.deepcopy, copy.copy, lambda remote: pickle.loads(pickle.dumps(remote))])
def test_a_copy_of_a_remote_that_was_used_asks_too(server: Server, copied: Callable[[Remote], Remote]) -> None:
    remote = Remote(server.url, "m", api_key="k")
    ask(remote)
    other = copied(remote)
    assert (ask(other), ask(remote)) == (["hello 0"], ["hello 0"])
    assert {headers["Authorization"] for headers in server.headers} == {"Bearer k"}


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_process_opens_its_own_connections(server: Server) -> None:
    remote = Remote(server.url, "m", concurrency=1)
    ask(remote)
    if not (child := os.fork()):
        os._exit(0 if ask(remote) == ["hello 0"] else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert ask(remote) == ["hello 0"]
    assert (len(server.asked), server.connections) == (3, 2)


def test_a_remote_that_is_gone_leaves_no_connection(server: Server) -> None:
    remote = Remote(server.url, "m")
    ask(remote, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        del remote
        gc.collect()


def test_a_closed_client_opens_new_connections(server: Server) -> None:
    server.answer = lambda body, number: reply("x")
    with Client() as client:
        client.post(f"{server.url}/a", b"{}", {}, 5.0)
        client.post(f"{server.url}/a", b"{}", {}, 5.0)
        client.close()
        client.post(f"{server.url}/b", b"{}", {}, 5.0)
    assert (len(server.asked), server.connections) == (3, 2)
