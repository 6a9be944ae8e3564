"""Single stories that the simulator can tell: late answers, persons, a network that is away."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import httpx2
import pytest
from promises_o import judge
from simulator import OP, Bench, World
from watched import STEPS, Cut

from lai.operations.answers import Answer, Remote, read_reply
from lai.operations.client import Client
from lai.operations.records import Operation, OperationError
from lai.operations.review import Decision, Outcome, resolve
from lai.operations.service.profiles import DAY, HOUR, PROFILES

LONG = HOUR + 100.0  # longer than the margin: an absence is final then
NEVER = {"call": 1, "mishap": "R12", "variant": "undone"}  # it says 500 for ever
LOST = {"call": 1, "mishap": "R1"}


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with Bench() as made:
        yield made


def kinds(world: World) -> list[str]:
    """The log, without what was said."""
    return [event["kind"] for event in world.story().events]


def decide(world: World, outcome: Outcome) -> None:
    """A person decides, who has read the risk."""
    store, past = world.bench.store, world.of()
    past.permitted += outcome is Outcome.SEND_AGAIN
    past.prolonged += outcome in {Outcome.SEND_AGAIN, Outcome.ASK_AGAIN}
    decision = Decision(outcome, "证据 \u2028 seen", "person", risk_read=True)
    resolve(store, world.bench.references, store.get(OP), decision)
    world.look()


# --- what the service did, and what was heard of it ---------------------------------------


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("profile", ["standard", "slow", "jobs", "fenced", "bare"])
def test_work_done_twice_is_an_alarm_and_no_third(bench: Bench, profile: str, lost: bool) -> None:
    """The receipt is kept, a person hears of it, and nothing is sent again."""
    if lost and PROFILES[profile].query != "key":
        return  # there it is never heard of
    plan = [{"call": 1, "mishap": "R3"}, *([LOST] if lost else [])]
    with World(bench, profile, plan) as world:
        world.live("worker-1")
        assert world.rest()["state"] == "succeeded"
        world.clock.at += DAY
        world.live("worker-2")
        world.tell()
        story = world.story()
        judge(story)
        assert (story.effects, len(story.posts), kinds(world).count("alarm")) == (2, 1, 1)


def late_answers(world: World, held: Operation) -> None:
    """The network delivers what nobody waits for any more."""
    for delivery in world.late:
        world.worker("worker-1").heard_late(held, read_reply(held, delivery.reply))


@pytest.mark.parametrize(
    ("mishap", "variant", "alarms"), [("R4", "", 0), ("R5", "same", 0), ("R5", "different", 1)]
)
def test_an_answer_that_comes_after_the_end(
    bench: Bench, mishap: str, variant: str, alarms: int
) -> None:
    """It is evidence and changes nothing; if it names another job, a person hears of it."""
    with World(bench, "standard", [{"call": 1, "mishap": mishap, "variant": variant}]) as world:
        worker, sent = world.worker("worker-1"), list[Operation]()
        watched = replace(worker, watch=lambda held, _: sent.append(held))
        world.plan(watched)
        watched.work_on(OP)
        assert world.rest()["state"] == "succeeded"
        before = world.row()
        late_answers(world, sent[-1])
        assert world.row() == before
        assert kinds(world).count("late") == 1
        assert kinds(world).count("alarm") == alarms


def test_an_overtaken_worker_leaves_what_it_heard(bench: Bench) -> None:
    """Its answer comes too late to be recorded, and stands in the log in its words."""
    with World(bench, "standard") as world:
        cut = Cut(["after send"], partial(overtaken, world, 31.0))
        world.live("worker-1", cut)
        assert world.rest()["state"] == "succeeded"
        (late,) = [event for event in world.story().events if event["kind"] == "late"]
        assert (late["by"], late["fence"]) == ("worker-1", 1)
        assert "job-1 completed" in late["evidence"]


def overtaken(world: World, seconds: float) -> None:
    """The worker stops for so long, and another does what it can."""
    world.clock.at += seconds
    world.live("worker-z")


def test_a_late_success_against_a_recorded_rejection_is_an_alarm(bench: Bench) -> None:
    """A request was on its way for longer than any contract allows: a person must hear of it."""
    with World(bench, "final") as world:
        world.on_the_way = partial(overtaken, world, LONG)
        world.live("worker-1")
        story = world.story()
        assert (story.last["state"], story.effects) == ("rejected", 1)
        assert kinds(world)[-2:] in (["late", "alarm"], ["alarm", "late"])


@pytest.mark.parametrize("profile", ["final", "fenced"])
def test_who_stops_before_sending_for_longer_than_the_lease_sends_nothing(
    bench: Bench, profile: str
) -> None:
    """Announced, then asleep: on waking, the lease is over, and others may have concluded.

    Between that look and the first byte a few instructions remain, as everywhere.
    """
    with World(bench, profile) as world:
        world.live("worker-1", Cut(["after pending"], partial(overtaken, world, LONG)))
        world.rest()
        world.tell()
        judge(world.story())


def damage(world: World) -> None:
    """The file of the input has other bytes."""
    (file,) = (world.bench.references.folder / "inputs").iterdir()
    file.write_bytes(b'{"title":"another","lines":[]}')


def lose_file(world: World) -> None:
    """The file of the input is gone."""
    (file,) = (world.bench.references.folder / "inputs").iterdir()
    file.unlink()


def renew(world: World) -> None:
    """The program now speaks another version of the interface."""
    world.contract = replace(world.contract, tool_version="v2")


@pytest.mark.parametrize("change", [damage, lose_file, renew])
@pytest.mark.parametrize("sent", [False, True])
def test_what_is_not_as_it_was_planned_is_not_sent(
    bench: Bench, change: Callable[[World], None], *, sent: bool
) -> None:
    """Another input or another program sends nothing; a request made before is still asked for."""
    with World(bench, "standard", [LOST]) as world:
        world.live("worker-1", Cut(["after send" if sent else "after claim"]))
        calls = len(world.provider.calls())
        change(world)
        last = world.rest()
        asks = sent and change is not renew  # what the other program hears it cannot read
        assert last["state"] == ("succeeded" if asks else "review_required")
        assert {c["method"] for c in world.provider.calls()[calls:]} == ({"GET"} if asks else set())
        world.tell()
        judge(world.story())


# --- persons ------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("hours", [1.0, 22.0, 23.5, 25.0])
def test_a_permitted_resend_needs_a_key_that_is_known(
    bench: Bench, profile: str, hours: float
) -> None:
    """Within the time of the key it is sent once more; after it not, whoever permits it."""
    expired = [{"call": call, "mishap": "R8"} for call in range(40, 90)]
    with World(bench, profile, [NEVER, *expired]) as world:
        world.live("worker-1")
        assert world.rest()["state"] == "review_required"
        world.clock.at = world.of().rows[0]["seen_at"] + hours * HOUR
        decide(world, Outcome.SEND_AGAIN)
        asked = len(world.provider.calls())
        world.live("worker-2")
        may = not world.profile.keys or hours < 23.0
        assert [c["method"] for c in world.provider.calls()[asked:]] == (["POST"] if may else [])
        if not may:
            assert "forgotten the key" in (world.row() or {})["review_reason"]


def test_a_resend_needs_a_person_who_has_read_the_risk(bench: Bench) -> None:
    """Without it, or without evidence, nothing is decided and nothing is sent."""
    with World(bench, "bare", [NEVER]) as world:
        world.live("worker-1")
        before = world.rest()
        store = bench.store
        for wrong in (
            Decision(Outcome.SEND_AGAIN, "seen", "person"),
            Decision(Outcome.SEND_AGAIN, " \u3000", "person", risk_read=True),
            Decision(Outcome.CANCELLED, "seen", "person", risk_read=True),
        ):
            with pytest.raises(OperationError):
                resolve(store, bench.references, store.get(OP), wrong)
        world.live("worker-2")
        assert world.row() == before
        assert len(world.story().posts) == 1


def test_a_refused_resend_says_nothing_of_the_first_request(bench: Bench) -> None:
    """The first may have been acted on, so the refusal of the second is no rejection."""
    posts: list[bytes] = []

    def handle(request: httpx2.Request) -> httpx2.Response:
        if request.method == "GET":
            return httpx2.Response(404, json={"code": "unknown_operation"})
        posts.append(request.content)
        if len(posts) == 1:
            raise httpx2.ReadTimeout("it was done; the answer is lost", request=request)
        return httpx2.Response(422, json={"code": "invalid_input"})

    with World(bench, "standard") as world, Client(httpx2.MockTransport(handle)) as client:
        world.client = client
        world.live("worker-1")
        assert world.rest()["state"] == "review_required"
        decide(world, Outcome.SEND_AGAIN)
        world.live("worker-2")
        assert len(posts) == 2
        assert (world.row() or {})["state"] != "rejected"


def test_a_second_job_that_fails_says_nothing_of_the_first(bench: Bench) -> None:
    """Without keys a permitted resend is another job: its failure is no word on what was done."""
    with World(bench, "fenced", [NEVER | {"variant": "done"}]) as world:
        world.live("worker-1")
        assert world.rest()["state"] == "review_required"
        decide(world, Outcome.SEND_AGAIN)
        world.provider.plan_mishaps([{"mishap": "R14"}])
        world.live("worker-2")
        ended = world.rest()["state"]
        assert world.story().effects == 1  # of the first request
        assert ended != "rejected"


@pytest.mark.parametrize("profile", ["standard", "jobs"])
def test_another_input_is_a_conflict_at_every_moment(bench: Bench, profile: str) -> None:
    """Planned under the same id at any step of a life, it changes no row and makes no call."""
    points = [f"{side} {step}" for step in STEPS for side in ("before", "after")]
    with World(bench, profile, [LOST]) as world:
        cut = Cut([p for p in points if p not in {"before input", "after input", "before plan"}])
        cut.then = world.contradict
        world.live("worker-1", cut)
        world.rest(cut)
        world.contradict()
        world.tell()
        judge(world.story())
        assert len(world.of().conflicts) >= 10


# --- the network -------------------------------------------------------------------------


def test_an_unreachable_service_is_not_tried_every_second(bench: Bench) -> None:
    """Tries have the schedule of questions, and end with the deadline: cancelled, never sent."""
    nobody = [{"call": call, "mishap": "R16"} for call in range(1, 200)]
    with World(bench, "standard", nobody) as world:
        for number in range(200):
            world.live(f"worker-{number}")
            world.wait()
        world.tell()
        story = world.story()
        assert (story.last["state"], story.posts) == ("cancelled", [])
        judge(story)


def test_a_question_that_was_not_sent_permits_nothing(bench: Bench) -> None:
    """Only an unsent request may be sent again; an unsent question says nothing about it."""
    with World(bench, "standard") as world:
        world.live("worker-1", Cut(["after send"]))
        world.wait()
        real, silent = world.client, Answer(Remote.NOT_SENT, "no connection for the question")
        world.client = Silent(real, silent)  # type: ignore[assignment]
        world.live("worker-2")
        world.rest()
        world.tell()
        judge(world.story())


class Silent:
    """A client whose first question does not leave the machine."""

    def __init__(self, real: Client, answer: Answer) -> None:
        self.send, self.close = real.send, real.close
        self._asks: list[Callable[[Operation], Answer]] = [lambda _: answer]
        self._real = real

    def ask(self, operation: Operation) -> Answer:
        """Ask, but not the first time."""
        return (self._asks.pop() if self._asks else self._real.ask)(operation)
