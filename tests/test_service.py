"""The report service as a process: it loses and delays for real, and never outlives its parent."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
from far_side import BODY, far_side, operation

from lai.operations.answers import Remote
from lai.operations.client import Client
from lai.operations.records import OperationError
from lai.operations.service.__main__ import _parser, _profile
from lai.operations.service.application import application
from lai.operations.service.mishaps import MISHAPS, Mishap
from lai.operations.service.profiles import PROFILES, Profile
from lai.operations.service.provider import Provider
from lai.operations.service.running import LOG, Service, running

SHORT, LATE, LONG = 0.1, 0.3, 30.0  # seconds: a client's patience, a late answer, no limit
PASSING = [m for m in MISHAPS if m not in {"R16", "R17", "R18"}]  # they befall one call only
HELD = {"R1", "R4", "R5"}  # their answers come too late for anybody hasty
WAYS = [(mishap, variant) for mishap in PASSING for variant in MISHAPS[mishap].variants]
PARENT = """
import os, sys, time
from pathlib import Path
from lai.operations.service.running import running
with running(Path(sys.argv[1])) as service:
    forked = os.fork()
    if forked:  # the child only keeps the pipe to the service open
        print(service.url, forked, flush=True)
    time.sleep(60)
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One process for the tests that leave it as it was; each has keys of its own."""
    with running(tmp_path_factory.mktemp("service"), late=LATE) as made:
        yield made


@pytest.fixture(scope="module")
def patient(service: Service) -> Iterator[Client]:
    """A client that waits."""
    with Client(service.url, timeout=LONG) as made:
        yield made


def soon(true: Callable[[], bool]) -> bool:
    """Whether it becomes true; how long that takes decides nothing."""
    until = time.monotonic() + 20
    while not (done := true()) and time.monotonic() < until:
        time.sleep(0.02)
    return done


def accepts(url: str) -> bool:
    host, port = url.removeprefix("http://").split(":")
    with suppress(OSError), socket.create_connection((host, int(port)), timeout=5):
        return True
    return False


def reports(service: Service, key: str) -> int:
    count: int = service.effects()["by_key"].get(key, 0)
    return count


@pytest.mark.parametrize(("mishap", "variant"), WAYS)
def test_a_mishap_is_the_same_on_the_wire(
    service: Service, patient: Client, mishap: Mishap, variant: str
) -> None:
    """A client hears from the process what it hears in memory, and the same was done."""
    key, one = f"op-{mishap}-{variant}", {"mishap": mishap, "variant": variant}
    known, before = operation(key), len(service.calls())
    with far_side() as side, Client(service.url, timeout=SHORT) as hasty:
        side.plan(one)
        service.plan_mishaps([one])
        client = hasty if mishap in HELD or variant == "silent" else patient
        assert client.send(known, BODY).status is side.send(key).status
        assert soon(lambda: len(service.calls()) == before + 1)
        side.plan(one)
        service.plan_mishaps([one])
        client = hasty if mishap in HELD else patient
        assert client.ask(known).status is side.ask(key).status
        assert soon(lambda: len(service.calls()) == before + 2)
        assert patient.ask(known).status is side.ask(key).status  # nothing is planned now
        assert reports(service, key) == side.reports()


def test_a_late_answer_reaches_who_waits(service: Service, patient: Client) -> None:
    """What is late for one client is in time for a patient one."""
    service.plan_mishaps([{"mishap": "R4"}])
    assert patient.send(operation("op-late"), BODY).status is Remote.COMPLETED


def test_a_held_answer_keeps_nobody_waiting(tmp_path: Path) -> None:
    """While one answer is held back others are given; a stop cuts it off, unanswered."""
    with (
        running(tmp_path, mishaps=[{"mishap": "R1", "call": 1}]) as service,
        Client(service.url, timeout=LONG) as client,
        ThreadPoolExecutor() as pool,
    ):
        held = pool.submit(client.send, operation(), BODY)
        assert soon(lambda: len(service.calls()) == 1)
        assert client.ask(operation()).status is Remote.COMPLETED
        assert not held.done()
        service.stop()
        assert held.result().status is Remote.NO_ANSWER
    assert (tmp_path / LOG).read_text() == ""


def test_calls_at_the_same_time_are_one_report(service: Service, patient: Client) -> None:
    """Eight equal requests at once are one report, and each gets its receipt."""
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: patient.send(operation("op-race"), BODY), range(8)))
    assert {one.status for one in answers} == {Remote.COMPLETED}
    assert len({one.job_id for one in answers}) == reports(service, "op-race") == 1


def test_a_killed_service_comes_back_as_it_was(tmp_path: Path) -> None:
    """Killed at work, it comes back at its address with what it has, and the work goes on."""
    plan = [{"mishap": "R1", "call": 1}, {"mishap": "R3", "call": 2}]
    with (
        running(tmp_path, profile=Profile(retention=600.0), work=0.5, mishaps=plan) as it,
        Client(it.url, timeout=LONG) as client,
        ThreadPoolExecutor() as pool,
    ):
        url, held = it.url, pool.submit(client.send, operation(), BODY)
        assert soon(lambda: len(it.calls()) == 1)
        it.kill()
        assert held.result().status is Remote.NO_ANSWER
        assert client.ask(operation()).status is Remote.NO_ANSWER
        assert client.send(operation("op-2"), BODY).status is Remote.NOT_SENT
        with pytest.raises(OperationError, match="does not answer"):
            it.effects()
        it.restart()  # also when it has not been stopped
        assert it.url == url
        assert client.send(operation("op-2"), BODY).status is Remote.RUNNING
        assert soon(lambda: client.ask(operation("op-2")).status is Remote.COMPLETED)
        assert client.ask(operation()).status is Remote.COMPLETED
        assert it.effects()["by_key"] == {"op-2": 2, "op-report-001": 1}  # R3 was planned before
        assert [one["call"] for one in it.calls()][:3] == [1, 2, 3]


def test_a_cell_starts_another_and_leaves_nothing(service: Service, tmp_path: Path) -> None:
    """It runs in an event loop, as in a notebook, apart from the first; its port is free after."""

    async def cell() -> None:
        with running(tmp_path / "new" / "folder") as other, Client(other.url, LONG) as client:
            assert other.url != service.url
            client.send(operation("op-elsewhere"), BODY)
            assert (reports(other, "op-elsewhere"), reports(service, "op-elsewhere")) == (1, 0)
            with pytest.raises(OperationError, match="is running"):
                other.start()
        other.stop()
        other.kill()  # nothing to do
        assert not accepts(other.url)
        with (
            socket.create_server(("127.0.0.1", int(other.url.rpartition(":")[2]))),
            pytest.raises(OperationError, match=r"^the service cannot start: [^\n]+$"),
        ):
            other.start()

    asyncio.run(cell())
    assert accepts(service.url)


def test_it_does_not_outlive_a_killed_parent(tmp_path: Path) -> None:
    """SIGKILL of the parent ends the service, though a forked child keeps its pipe open."""
    command = [sys.executable, "-c", PARENT, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        url, forked = parent.stdout.readline().split()
        try:
            assert accepts(url)
            parent.kill()
            parent.wait()
            assert soon(lambda: not accepts(url))
        finally:
            os.kill(int(forked), signal.SIGKILL)
    assert (tmp_path / LOG).read_text() == ""


def test_the_command_says_where_it_is_and_ends_when_told_to() -> None:
    """One line when it accepts requests; no word when a signal or its closed input ends it."""
    ways = {
        signal.SIGINT: ["--profile", "bare", "--work", "1"],
        signal.SIGTERM: ["--late", "2"],
        None: ["--with-parent", str(os.getpid())],
    }
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with ExitStack() as stack:
        command = [sys.executable, "-W", "error", "-m", "lai.operations.service"]
        started = [
            (way, stack.enter_context(subprocess.Popen([*command, *options], text=True, **pipes)))
            for way, options in ways.items()
        ]
        for way, process in started:
            assert process.stdout is not None
            line = process.stdout.readline()
            url = re.fullmatch(r"report service at (\S+); Ctrl-C or SIGTERM stops it\n", line)
            assert url is not None
            assert httpx2.get(f"{url[1]}/health", trust_env=False).json() == {"accepts": True}
            if way:
                process.send_signal(way)
            assert process.communicate(timeout=30) == ("", "")  # closes its input
            assert process.returncode == 0


@pytest.mark.parametrize("name", ["perfect", '{"work": "long"}', '{"works": 1}', "{"])
def test_a_profile_that_is_none_is_refused(name: str) -> None:
    """It is told with the names of those that are."""
    with pytest.raises(OperationError, match=r"no such profile: .+; there are bare, blind"):
        _profile(_parser().parse_args(["--profile", name]))


def test_only_this_machine_is_served(service: Service) -> None:
    """It listens on loopback, and a request for another host is refused."""
    assert service.url.startswith("http://127.0.0.1:")
    with httpx2.Client(base_url=service.url, trust_env=False) as http:
        for host, status in (("localhost", 200), ("rebound.invalid", 400)):
            assert http.get("/effects", headers={"host": host}).status_code == status
        assert http.get("/docs").status_code == 404
        assert http.get("/openapi.json").status_code == 404


def test_a_plan_that_makes_no_sense_is_refused(service: Service, patient: Client) -> None:
    """The service says why, R16 too, and what was planned before stands."""
    service.plan_mishaps([{"mishap": "R10"}])
    for wrong in ([{"mishap": "R99"}], [{"mishap": "R1", "call": -1}], [{"mishap": "R16"}]):
        with pytest.raises(OperationError, match="the service refuses"):
            service.plan_mishaps(wrong)
    with httpx2.Client(base_url=service.url, trust_env=False) as http:
        for body in (b"", b"null", b"{}", b'["R1"]', b"[" * 100_000):
            assert http.put("/mishaps", content=body).status_code == 422
    assert patient.ask(operation("op-plan")).status is Remote.MISMATCH


def test_what_is_out_of_order_is_refused(service: Service) -> None:
    """A question without a key is no call; more than anybody would read is invalid input."""
    before = service.calls()
    with httpx2.Client(base_url=service.url, trust_env=False) as http:
        assert http.get("/reports").status_code == 400
        assert http.put("/reports").status_code == 405
        assert service.calls() == before
        answer = http.post("/reports", content=b"x" * 3_000_000, headers={"idempotency-key": "k"})
    assert (answer.status_code, answer.json()) == (422, {"code": "invalid_input"})
    assert reports(service, "k") == 0


def test_a_lost_answer_is_held_until_the_client_is_gone() -> None:
    """Nothing is said while the client waits; when it goes, the request ends."""
    said: list[Any] = []

    async def play() -> None:
        gone, asked = asyncio.Event(), asyncio.Event()
        messages = [{"type": "http.request", "body": json.dumps(BODY).encode()}]

        async def receive() -> Any:
            if messages:
                return messages.pop()
            asked.set()
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            said.append(message)

        headers = [(b"host", b"localhost"), (b"idempotency-key", b"k")]
        scope = {"type": "http", "method": "POST", "path": "/reports", "headers": headers}
        whole = scope | {"query_string": b"", "http_version": "1.1", "root_path": ""}
        with Provider(":memory:", PROFILES["standard"], time.time) as provider:
            provider.plan_mishaps([{"mishap": "R1"}])
            call = asyncio.ensure_future(application(provider)(whole, receive, send))
            await asked.wait()
            await asyncio.sleep(0)
            assert (call.done(), said, provider.effects()["reports"]) == (False, [], 1)
            gone.set()
            await call

    asyncio.run(play())
    assert b"job-1" not in b"".join(message.get("body", b"") for message in said)
