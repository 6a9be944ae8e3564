"""The worker as a program: it recovers until told to stop, and shows what waits for a person."""

import contextlib
import io
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lai.course.reporting import REPORT
from lai.operations import worker
from lai.operations.client import Client
from lai.operations.records import State
from lai.operations.references import References
from lai.operations.service.profiles import PROFILES, contract
from lai.operations.service.provider import Provider
from lai.operations.service.running import Service, running
from lai.operations.service.transport import transport_of
from lai.operations.store import Store
from lai.operations.work import Worker

ENOUGH = 60.0  # seconds after which a test gives up waiting; none of them decides by time


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with running(tmp_path / "service") as started:
        yield started


def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'operations.sqlite'}"


def started(tmp_path: Path, service: Service | None, names: list[str], ago: float = 0.0) -> None:
    """Operations that a process sent ``ago`` seconds ago, with ten minutes to find out.

    Without a service they are sent to one in memory, of which nothing is left.
    """
    now = lambda: time.time() - ago  # noqa: E731
    far: Any = (
        service.url
        if service
        else transport_of(Provider(":memory:", PROFILES["standard"], time.time))
    )
    with Store(url(tmp_path), now=now) as store, Client(far, timeout=0.2) as client:
        at = Worker(
            store=store,
            references=References(tmp_path / "operations.sqlite.files"),
            service=client,
            contract=contract(PROFILES["standard"]),
            owner="gone",
        )
        for name in names:
            at.plan(name, REPORT, run_id="run", tool_name="create_report", patience=600.0)
            at.work_on(name)


def run(tmp_path: Path, *arguments: str) -> tuple[int, str, str]:
    """The command in this process: its exit code, and what it says on both streams."""
    out, err = io.StringIO(), io.StringIO()
    kept = [(number, signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = worker.main(["--database", url(tmp_path), *arguments])
    for number, handler in kept:
        signal.signal(number, handler)
    return code, out.getvalue(), err.getvalue()


def spawn(tmp_path: Path, service: Service, name: str) -> tuple[subprocess.Popen[bytes], Path]:
    """A worker at work, and the file in which it says what it does."""
    said = tmp_path / f"{name}.txt"
    command = [sys.executable, "-m", "lai.operations.worker", "--database", url(tmp_path)]
    with said.open("wb") as file:
        process = subprocess.Popen([*command, "--service", service.url], stdout=file)
    until(lambda: "at work" in said.read_text("utf-8"))
    return process, said


def until(condition: object) -> None:
    end = time.monotonic() + ENOUGH
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.05)


def states(tmp_path: Path) -> set[State]:
    with Store(url(tmp_path)) as store:
        return {found.state for found in store.all()}


def test_two_workers_recover_all_and_send_nothing(tmp_path: Path, service: Service) -> None:
    """Two at once, until told to stop: every lost answer is found, every report made once."""
    names = [f"op-书-{number}" for number in range(6)]
    service.plan_mishaps([{"mishap": "R1", "call": n} for n in range(1, 7)])
    started(tmp_path, service, names)
    workers = [spawn(tmp_path, service, name) for name in "AB"]
    until(lambda: states(tmp_path) == {State.SUCCEEDED})
    for process, _ in workers:
        process.send_signal(signal.SIGTERM)
    assert [process.wait(ENOUGH) for process, _ in workers] == [0, 0]
    said = "".join(file.read_text("utf-8") for _, file in workers)
    assert sorted(set(re.findall(r"(op-书-\d)  succeeded", said))) == names
    assert [call["method"] for call in service.calls()].count("POST") == 6
    assert service.effects()["reports"] == 6


def test_ctrl_c_ends_it_after_its_step(tmp_path: Path, service: Service) -> None:
    """It says that it stops, and leaves no claim behind."""
    started(tmp_path, service, ["op-1"])
    process, said = spawn(tmp_path, service, "A")
    process.send_signal(signal.SIGINT)
    assert process.wait(ENOUGH) == 0
    assert "stops after" in said.read_text("utf-8")
    with Store(url(tmp_path)) as store:
        assert [found.owner for found in store.all()] == [None]


def test_a_person_sees_what_is_missing_and_decides(tmp_path: Path, service: Service) -> None:
    """`list`, `show` and `resolve`: nothing is sent, and the decision is in the log."""
    service.plan_mishaps([{"mishap": "R12", "call": n} for n in range(1, 9)])
    started(tmp_path, service, ["op-书"], ago=3600.0)
    assert "review_required" in run(tmp_path, "--service", service.url, "--once")[1]
    calls = len(service.calls())
    assert re.search(r"op-书  review_required +attempt 1  missing: ", run(tmp_path, "list")[1])
    shown = run(tmp_path, "show", "op-书")[1]
    assert json.loads(shown[: shown.index("\n}") + 2])["state"] == "review_required"
    assert "result not confirmed" in shown
    words = ["--outcome", "happened", "--evidence", "报告在收件箱里", "--by", "小李"]
    code, told, _ = run(tmp_path, "resolve", "op-书", *words)
    assert (code, "succeeded" in told) == (0, True)
    last = run(tmp_path, "show", "op-书")[1].splitlines()[-1]
    assert "报告在收件箱里  (小李)" in last
    assert len(service.calls()) == calls


def test_a_resend_needs_a_look_at_the_risk(tmp_path: Path, service: Service) -> None:
    """Without it nothing changes; with it the same key is sent once more."""
    service.plan_mishaps([{"mishap": "R2", "call": 1}])
    started(tmp_path, service, ["op-1"], ago=3600.0)
    run(tmp_path, "--service", service.url, "--once")
    words = ["resolve", "op-1", "--outcome", "send_again", "--evidence", "the operator allows it"]
    code, _, refused = run(tmp_path, *words)
    assert (code, "does the action twice" in refused) == (2, True)
    assert states(tmp_path) == {State.REVIEW_REQUIRED}
    assert run(tmp_path, *words, "--risk-read")[0] == 0
    run(tmp_path, "--service", service.url, "--once")
    assert states(tmp_path) == {State.SUCCEEDED}
    keys = [call["key"] for call in service.calls() if call["method"] == "POST"]
    assert (keys, service.effects()["reports"]) == (["op-1", "op-1"], 1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["show", "op-none"], "there is no operation 'op-none'"),
        ([], "name the service to ask"),
        (["--service", "nowhere"], "not the address of a service"),
        (["resolve", "op-1", "--outcome", "happened", "--evidence", " "], "evidence"),
        (["resolve", "op-1", "--outcome", "abandoned", "--evidence", "x"], "may not take it"),
    ],
)
def test_an_error_is_one_line_with_what_to_do(
    tmp_path: Path, arguments: list[str], said: str
) -> None:
    """No traceback, exit code 2, and the operations are as before."""
    started(tmp_path, None, ["op-1"])
    with Store(url(tmp_path)) as store:
        before = store.all()
    code, _, told = run(tmp_path, *arguments)
    assert (code, len(told.splitlines())) == (2, 1)
    assert said in told
    with Store(url(tmp_path)) as store:
        assert store.all() == before


def test_a_wrong_url_is_said_without_its_password(capsys: pytest.CaptureFixture[str]) -> None:
    """The error names the two forms that work, and never what a terminal should not keep."""
    assert worker.main(["--database", "mysql://me:secret@host/db", "list"]) == 2
    told = capsys.readouterr().err
    assert "sqlite:///FILE" in told
    assert "secret" not in told


def test_terminal_escapes_in_names_are_shown(tmp_path: Path) -> None:
    """What another program wrote into a record cannot move the reader's cursor."""
    started(tmp_path, None, ["op-\x1b[2J"])
    for command in (["list"], ["show", "op-\x1b[2J"]):
        code, told, _ = run(tmp_path, *command)
        assert (code, "\x1b" in told) == (0, False)


def test_a_report_is_ordered_and_found_from_the_command_line(
    tmp_path: Path, service: Service
) -> None:
    """As README says it: the order is unknown, and a worker finds out without a second one."""
    service.plan_mishaps([{"mishap": "R15"}])
    order = ("--service", service.url, "create-report", "测试报告", "通过 3 项")
    code, told, _ = run(tmp_path, *order)
    assert (code, bool(re.search(r"op-\w+  unknown +attempt 1", told))) == (0, True)
    with Store(url(tmp_path)) as store:
        (known,) = store.all()
    until(
        lambda: (
            run(tmp_path, "--service", service.url, "--once") and states(tmp_path) != {known.state}
        )
    )
    assert states(tmp_path) == {State.SUCCEEDED}
    assert [call["method"] for call in service.calls()] == ["POST", "GET"]
