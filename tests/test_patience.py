"""Waiting only so long: the answer or TimeoutError now, and the late one never lost."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lai.course.place import MORNING
from lai.operations.answers import Answer, Remote
from lai.operations.patience import Patient
from lai.operations.records import Operation, State
from lai.operations.references import References
from lai.operations.service.profiles import PROFILES, contract
from lai.operations.store import Store
from lai.operations.waiting import within
from lai.operations.work import Worker

ENOUGH = 30.0  # seconds for a thread to come to its end; no claim rests on it


def test_an_answer_in_time_is_returned() -> None:
    """Nothing is called late then."""
    late: list[str] = []
    assert within(ENOUGH, lambda: "书", late.append) == "书"
    assert late == []


@pytest.mark.parametrize("error", [ValueError("书"), TimeoutError("its own")])
def test_an_error_in_time_is_raised(error: Exception) -> None:
    """The call's own error, a TimeoutError of its own too, reaches whoever waits."""

    def fail() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        within(ENOUGH, fail, pytest.fail)
    assert caught.value is error


def test_a_late_answer_is_handed_over_once() -> None:
    """TimeoutError now; the value comes to `late`, in the thread that waited for it."""
    go, came = threading.Event(), threading.Event()
    late: list[str] = []

    def call() -> str:
        assert go.wait(ENOUGH)
        return "书"

    def note(value: str) -> None:
        late.append(value)
        came.set()

    with pytest.raises(TimeoutError):
        within(0.01, call, note)
    assert late == []
    go.set()
    assert came.wait(ENOUGH)
    assert late == ["书"]


def test_every_value_comes_exactly_one_way() -> None:
    """However close the answer is to the end of the time, it is returned or late, never both."""
    for number in range(300):
        late: list[int] = []
        came = threading.Event()

        def note(value: int, late: list[int] = late, came: threading.Event = came) -> None:
            late.append(value)
            came.set()

        try:
            returned = [within(0.0002, lambda number=number: number, note)]
        except TimeoutError:
            returned = []
            assert came.wait(ENOUGH)
        assert returned + late == [number]


class Slow:
    """A service that answers a send when it is told to."""

    def __init__(self, answer: Answer) -> None:
        self.go, self.answer = threading.Event(), answer

    def send(self, *_: Any) -> Answer:
        """Wait for the word, then answer."""
        assert self.go.wait(ENOUGH)
        return self.answer

    def ask(self, _: Operation) -> Answer:
        """Say nothing."""
        return Answer(Remote.NO_ANSWER, "nothing")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(f"sqlite:///{tmp_path / 'o.sqlite'}", now=lambda: MORNING) as opened:
        yield opened


def waits(store: Store, folder: Path, slow: Slow) -> Worker:
    worker = Worker(
        store=store,
        references=References(folder),
        service=slow,
        contract=contract(PROFILES["standard"]),
        owner="书",
    )
    return replace(worker, service=Patient(slow, 0.01, worker.heard_late))


def wait_for(condition: Callable[[], bool]) -> None:
    tick = threading.Event()
    for _ in range(1000):
        if condition():
            return
        tick.wait(ENOUGH / 1000)
    pytest.fail("it did not come about")


def test_a_late_answer_changes_no_state(store: Store, tmp_path: Path) -> None:
    """The record says unknown; the answer that came after all stands in its log as late."""
    slow = Slow(Answer(Remote.COMPLETED, "job-1 completed", "job-1", {"书": 1}, said="completed"))
    worker = waits(store, tmp_path, slow)
    worker.plan("op", {"书": 1}, run_id="run", tool_name="create_report")
    assert worker.work_on("op").state is State.UNKNOWN
    before = store.get("op")
    slow.go.set()
    wait_for(lambda: store.events("op")[-1]["kind"] == "late")
    assert store.get("op") == before
    assert "job-1 completed; receipt receipts/" in store.events("op")[-1]["evidence"]


def test_a_late_answer_against_the_record_is_an_alarm(store: Store, tmp_path: Path) -> None:
    """R5: somebody has decided meanwhile, and the service says the contrary: people hear of it."""
    slow = Slow(Answer(Remote.COMPLETED, "job-1 completed", "job-1", {"书": 1}, said="completed"))
    worker = waits(store, tmp_path, slow)
    worker.plan("op", {"书": 1}, run_id="run", tool_name="create_report")
    worker.work_on("op")
    held = store.claim("other", 60.0, "op")
    assert held is not None
    store.change(held, State.REJECTED, "the service refused")
    slow.go.set()
    wait_for(lambda: store.events("op")[-1]["kind"] == "alarm")
    assert store.get("op").state is State.REJECTED
    assert [event["kind"] for event in store.events("op")][-3:] == ["rejected", "late", "alarm"]
