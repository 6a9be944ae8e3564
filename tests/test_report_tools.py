"""The agent's tool on a real service: one operation a call, and evidence instead of a second send.

The service is a process of its own and counts what it did; no claim rests on our records alone.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lai import Session, session_path
from lai.calls import ArgumentsError
from lai.course import reporting
from lai.course.place import agent_at
from lai.course.reporting import REPORT, Desk, counted, desk, lose
from lai.course.tables import steps
from lai.operations import tools
from lai.operations.patience import Patient
from lai.operations.records import OperationError, State
from lai.operations.service.running import Service, running
from lai.operations.tools import CREATE, READ, report_tools
from lai.records import JSON
from lai.tools import Arguments, Effect, Finding, Run, ToolError, Unconfirmed

KEY = "demo:create_report:call_书"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(tmp_path_factory.mktemp("service"), late=0.6) as started:
        yield started


@pytest.fixture
def at(service: Service, tmp_path: Path) -> Iterator[Desk]:
    with desk(service.url, tmp_path) as open_desk:
        yield open_desk


def key(tmp_path: Path) -> str:
    """A key that no other test uses at the shared service."""
    return f"demo:{CREATE}:{tmp_path.name}"


def create(at: Desk, name: str) -> JSON:
    made, _ = at.tools()
    return made.run(REPORT, Run("exec_1", name))


def test_a_receipt_is_the_result(at: Desk, service: Service, tmp_path: Path) -> None:
    """An answer in time is the tool's result, with the service's own receipt in it."""
    results: list[JSON] = []
    arrived, made = counted(service, lambda: results.append(create(at, key(tmp_path))))
    assert (arrived, made) == (["POST"], 1)
    assert results[0]["operation_id"] == key(tmp_path)
    assert results[0]["report"]["title"] == REPORT["title"]


def test_a_lost_answer_is_unknown_in_the_record_and_for_the_ledger(
    at: Desk, service: Service, tmp_path: Path
) -> None:
    """The tool says that it cannot tell, and the record says what may be asked."""
    lose(service, 1)
    with pytest.raises(Unconfirmed, match="unknown"):
        create(at, key(tmp_path))
    assert at.store.get(key(tmp_path)).state is State.UNKNOWN
    assert service.effects()["by_key"][key(tmp_path)] == 1


def test_a_second_attempt_at_a_call_sends_nothing(
    at: Desk, service: Service, tmp_path: Path
) -> None:
    """The call's key names the operation, so running the call again asks about the first time."""
    lose(service, 1)
    with pytest.raises(Unconfirmed):
        create(at, key(tmp_path))
    arrived, made = counted(service, lambda: create(at, key(tmp_path)))
    assert (arrived, made) == (["GET"], 0)


def test_another_input_under_the_key_is_refused_before_any_traffic(
    at: Desk, service: Service, tmp_path: Path
) -> None:
    """O12: a conflict is found at home."""
    create(at, key(tmp_path))
    made, _ = at.tools()

    def again() -> None:
        with pytest.raises(Exception, match="another input_sha256"):
            made.run({"title": "另一份", "lines": []}, Run("exec_2", key(tmp_path)))

    assert counted(service, again) == ([], 0)


def test_a_refusal_is_a_failure(at: Desk, service: Service, tmp_path: Path) -> None:
    """The service's certain no is the tool's error, not a doubt."""
    lose(service, 1, "R14")  # accepted, and failed later
    with pytest.raises((ToolError, Unconfirmed)):
        create(at, key(tmp_path))
    made, _ = at.tools()
    assert made.lookup is not None
    found = made.lookup(REPORT, key(tmp_path))
    assert (found.finding, found.succeeded) == (Finding.FOUND, False)
    assert key(tmp_path) not in service.effects()["by_key"]


@pytest.mark.parametrize("planned", [False, True])
def test_absent_is_said_on_our_own_record_alone(at: Desk, planned: bool, tmp_path: Path) -> None:
    """Never planned, or planned and not sent: that is known here, and nothing is asked or sent."""
    if planned:
        at.worker.plan(key(tmp_path), REPORT, run_id="run", tool_name=CREATE)
    made, _ = at.tools()
    assert made.lookup is not None
    assert made.lookup(REPORT, key(tmp_path)).finding is Finding.ABSENT
    assert [found.state for found in at.store.all()] == [State.PLANNED] * planned


def test_planned_again_is_not_absent(
    at: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was sent once may have arrived, although a person permitted to send it again."""
    at.worker.plan(key(tmp_path), REPORT, run_id="run", tool_name=CREATE)
    again = replace(at.store.get(key(tmp_path)), sent_at=1.0)
    monkeypatch.setattr(type(at.store), "get", lambda *_: again)
    monkeypatch.setattr(tools, "_settled", lambda _worker, known, _wait: known)
    made, _ = at.tools()
    assert made.lookup is not None
    assert made.lookup(REPORT, key(tmp_path)).finding is Finding.INCONCLUSIVE


def test_not_found_at_the_service_is_inconclusive(
    at: Desk, service: Service, tmp_path: Path
) -> None:
    """The service forgot the request: that is no permission for a second one."""
    lose(service, 1, "R2")
    with pytest.raises(Unconfirmed):
        create(at, key(tmp_path))
    made, _ = at.tools()
    assert made.lookup is not None
    answers: list[Any] = []
    arrived, _ = counted(service, lambda: answers.append(made.lookup(REPORT, key(tmp_path))))
    assert (answers[0].finding, arrived) == (Finding.INCONCLUSIVE, ["GET"])


def test_a_service_that_is_away_was_not_sent_to(tmp_path: Path) -> None:
    """A refused connection leaves the record planned, and the next attempt sends it."""
    with running(tmp_path / "service") as away:
        with desk(away.url, tmp_path) as at:
            away.stop()
            with pytest.raises(Unconfirmed, match="planned"):
                create(at, KEY)
            left = at.store.get(KEY)
            assert (left.state, left.attempt, left.sent_at) == (State.PLANNED, 1, None)
            away.start()
            assert create(at, KEY)["operation_id"] == KEY
        ((sent_key, times),) = away.effects()["by_key"].items()
        assert (sent_key.isascii(), times) == (True, 1)  # a header carries no 书


def test_the_dependent_step_reads_a_stored_receipt_or_nothing(
    at: Desk, service: Service, tmp_path: Path
) -> None:
    """`read_report` fails while there is no receipt, and asks nobody."""
    lose(service, 1)
    with pytest.raises(Unconfirmed):
        create(at, key(tmp_path))
    _, read = at.tools()
    named = {"operation_id": key(tmp_path)}

    def early() -> None:
        with pytest.raises(ToolError, match="no receipt"):
            read.run(named, Run("", ""))

    assert counted(service, early) == ([], 0)
    create(at, key(tmp_path))
    assert read.run(named, Run("", ""))["report"]["title"] == REPORT["title"]


def test_a_damaged_receipt_is_not_read(at: Desk, tmp_path: Path) -> None:
    """A receipt whose content changed on disk is an error with its name, never a result."""
    create(at, key(tmp_path))
    known = at.store.get(key(tmp_path))
    file = tmp_path / "files" / str(known.result_ref)
    file.write_bytes(file.read_bytes().replace(b"report", b"rumour"))
    _, read = at.tools()
    with pytest.raises(ToolError, match="cannot be read"):
        read.run({"operation_id": key(tmp_path)}, Run("", ""))


async def _late(at: Desk, name: str) -> None:
    await reporting.heard(at, name, "late")


def test_a_late_answer_becomes_evidence(at: Desk, service: Service, tmp_path: Path) -> None:
    """What comes after the patience ended changes no state, and is not lost."""
    import asyncio

    lose(service, 1, "R4")
    with reporting.patient(at, service.url, seconds=0.1) as worker:
        tools = report_tools(worker, "run", wait=0.0)
        with pytest.raises(Unconfirmed, match=r"no answer within 0\.1 s"):
            tools[0].run(REPORT, Run("exec_1", key(tmp_path)))
        assert isinstance(worker.service, Patient)
        asyncio.run(_late(at, key(tmp_path)))
    assert at.store.get(key(tmp_path)).state is State.UNKNOWN
    assert "completed" in at.store.events(key(tmp_path))[-1]["evidence"]


# In the loop


@pytest.mark.parametrize(
    ("point", "posts", "made"),
    [("before send", 0, 0), ("after send", 1, 1)],
)
def test_a_killed_agent_asks_before_anything_else(
    tmp_path: Path, point: str, posts: int, made: int
) -> None:
    """SIGKILL around the send: the next process never sends from pending, and loses no report."""
    (tmp_path / "work").mkdir()
    path = session_path(tmp_path / "work")
    with running(tmp_path / "service") as service:
        assert reporting.die(path, service.url, point) == -9
        assert len(service.calls()) == posts
        with desk(service.url, tmp_path / "work") as at:
            at.clock.forward(60)
            model, tools = reporting.reporter(), at.tools()
            with agent_at(path, lambda _: None, model=model, tools=tools) as agent:
                question = agent.continue_turn()
        calls = [call["method"] for call in service.calls()]
        assert (calls.count("POST"), service.effects()["reports"]) == (posts, made)
    told = steps(Session.read(path).records)
    assert told[2:5] == ["approved", "running", "unknown"]
    assert (question == "报告已经做好 🙂") is (made == 1)


def test_the_dependent_call_runs_after_the_receipt_is_stored(tmp_path: Path) -> None:
    """In the session file the look-up's success stands before the call that reads it."""
    (tmp_path / "work").mkdir()
    path = session_path(tmp_path / "work")
    with running(tmp_path / "service") as service, desk(service.url, tmp_path / "work") as at:
        lose(service, 1)
        with agent_at(path, lambda _: "y", model=reporting.reporter(), tools=at.tools()) as agent:
            at.clock.forward(60)
            agent.run("请生成一份测试报告")
    order = steps(Session.read(path).records)
    assert order == [
        "user",
        "assistant",
        *["approved", "running", "unknown", "succeeded", "tool"],
        *["assistant", "tool", "assistant"],
    ]


def test_the_tools_say_what_they_promise(at: Desk) -> None:
    """`create_report` can be asked; `read_report` only reads; both take no stray arguments."""
    made, read = at.tools()
    assert (made.name, made.effect) == (CREATE, Effect.QUERYABLE)
    assert (read.name, read.effect) == (READ, Effect.READ_ONLY)
    for tool in (made, read):
        assert issubclass(tool.arguments, Arguments)
        with pytest.raises(ArgumentsError):
            tool.validate({"operation": "书"})


def test_work_of_another_scope_is_left_alone(at: Desk, service: Service, tmp_path: Path) -> None:
    """Asked at another service, "not found" would be believed: neither sent, asked nor claimed."""
    at.worker.plan(key(tmp_path), REPORT, run_id="run", tool_name=CREATE)
    stranger = replace(at.worker, contract=replace(at.worker.contract, scope="another"))
    before = at.store.all()

    def work() -> None:
        assert stranger.work_once() is None
        with pytest.raises(OperationError, match="belongs to"):
            stranger.work_on(key(tmp_path))

    assert counted(service, work) == ([], 0)
    assert at.store.all() == before
