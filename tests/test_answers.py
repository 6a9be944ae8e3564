"""A reply counts for what the service itself says about this operation, and for nothing more."""

import json
from typing import Any

import pytest
from far_side import BODY, operation
from hypothesis import example, given
from hypothesis import strategies as st

from lai.calls import arguments_sha256
from lai.operations.answers import Answer, Remote, Reply, read_reply

KEY, SHA = "op-report-001", arguments_sha256(BODY)
ABOUT = {"idempotency_key": KEY, "input_sha256": SHA}
RECEIPT = {"report_id": "report-7", **ABOUT, "title": "书 \u2028 report"}
JOB: dict[str, Any] = {"job_id": "job-7", **ABOUT, "status": "completed", "executions": 1}
DONE = JOB | {"receipt": RECEIPT}
RUNS = JOB | {"status": "running", "executions": 0}
FAILED = JOB | {"status": "failed", "executions": 0, "error": "纸 \u0085 used up"}
JOBS = (200, 201, 202)
OTHERS = {"op-2": "idempotency_key", "0" * 64: "input_sha256", "job-8": "job_id"}
JSON_TYPE = "application/json"


def reply(status: int, body: Any, **headers: str) -> Reply:
    """A reply; what is not bytes is sent as JSON, ``api_version`` is the header api-version."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    data = body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()
    return Reply(status, {"content-type": JSON_TYPE} | named, data)


def heard(status: int, body: Any, known: dict[str, Any] | None = None, **headers: str) -> Answer:
    """What is read from it about the operation, of which ``known`` is known already."""
    return read_reply(operation(**known or {}), reply(status, body, **headers))


@pytest.mark.parametrize("status", JOBS)
def test_a_job_is_read(status: int) -> None:
    """Its status, its number, its receipt and its own word, whichever of the codes it has."""
    done, runs, failed = (heard(status, body) for body in (DONE, RUNS, FAILED))
    assert (done.status, done.said, done.receipt) == ("completed", "completed", RECEIPT)
    assert (runs.status, runs.said, runs.receipt) == ("running", "running", None)
    assert (failed.status, failed.said, failed.receipt) == ("failed", "failed", None)
    assert {one.job_id for one in (done, runs, failed)} == {"job-7"}
    assert "纸 \u0085 used up" in failed.evidence
    assert {one.alarm for one in (done, runs, failed)} == {""}


@pytest.mark.parametrize(
    ("status", "body", "wanted"),
    [
        (404, {"code": "unknown_operation"}, "not_found"),
        (429, {"code": "ask_later"}, "busy"),
        (429, b"<html>", "busy"),
        (503, b"", "busy"),
        *[(status, {"code": "in_progress"}, "busy") for status in (400, 409, 422)],
        *[(status, {"code": "key_reused"}, "mismatch") for status in (400, 409, 422)],
        *[(status, {"code": "invalid_input"}, "failed") for status in (400, 409, 422)],
        *[(status, {"code": "stale_fence"}, "no_answer") for status in (400, 409, 422)],
        *[(status, {}, "no_answer") for status in (400, 404, 409, 422)],
        *[(status, DONE, "no_answer") for status in (204, 206, 301, 302, 307, 401, 500, 502, 0)],
        *[(status, {"code": "invalid_input"}, "no_answer") for status in (200, 403, 500, 504)],
        *[(status, FAILED, "no_answer") for status in (400, 404, 409, 410, 422, 500)],
        (404, {"code": "no_such_endpoint"}, "no_answer"),
        (404, {"message": "unknown_operation"}, "no_answer"),
        (404, ["unknown_operation"], "no_answer"),
        (404, {"code": ["unknown_operation"]}, "no_answer"),
        (200, {"code": "unknown_operation"}, "no_answer"),
        (201, {"error": "upstream request failed"}, "no_answer"),
        (409, {"code": {"invalid_input": True}}, "no_answer"),
    ],
)
def test_every_other_reply(status: int, body: Any, wanted: str) -> None:
    """A refusal counts in the words of the interface under its own codes, and nothing else does."""
    assert heard(status, body).status == wanted


@pytest.mark.parametrize("code", ["unknown_operation", "invalid_input"])
@pytest.mark.parametrize("status", [400, 404, 409, 422])
@pytest.mark.parametrize("kind", ["text/html", "text/plain", "", "application/xml"])
def test_a_page_is_not_the_service(code: str, status: int, kind: str) -> None:
    """What comes from a proxy, or from a page, is neither a no nor a "not found"."""
    page = {"content_type": kind}
    assert heard(status, {"code": code}, **page).status == "no_answer"
    assert heard(200, FAILED, **page).status == "no_answer"
    assert heard(200, DONE, **page).status == "no_answer"


BROKEN = [
    b"",
    b"null",
    b"true",
    b"[]",
    b'"completed"',
    b"{",
    b"\xff\xfe",
    b"\xef\xbb\xbf" + json.dumps(DONE).encode(),  # a mark that is no part of JSON
    json.dumps(DONE).encode()[:-1],
    json.dumps(DONE).encode() + b"{}",
    json.dumps(DONE).encode("utf-16"),
    json.dumps(DONE).encode().replace(b'"executions": 1', b'"executions": NaN'),
    json.dumps(DONE).encode().replace(b'"executions": 1', b'"executions": Infinity'),
    json.dumps(DONE).encode().replace(b'"executions": 1', b'"executions": ' + b"9" * 5000),
    json.dumps(DONE).encode().replace(b'"status"', b'"status": "running", "status"'),
    json.dumps(DONE).encode().replace(b'"executions"', b'"x": "\\ud800", "executions"'),
    b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    b"[" * 100_000 + b"]" * 100_000,
    json.dumps(DONE | {"x": 1}).encode().replace(b'"x": 1', b'"x": ' + b"[" * 9999 + b"]" * 9999),
]


@pytest.mark.parametrize("body", BROKEN, ids=range(len(BROKEN)))
@pytest.mark.parametrize("status", [*JOBS, 400, 404, 409, 422, 429, 500])
def test_a_broken_body_says_nothing(body: bytes, status: int) -> None:
    """What is not one strict JSON object is no answer, and no error either."""
    assert heard(status, body).status == ("busy" if status == 429 else "no_answer")


@pytest.mark.parametrize("job", [DONE, RUNS, FAILED], ids=["done", "runs", "failed"])
@pytest.mark.parametrize(("value", "name"), OTHERS.items())
def test_an_answer_about_something_else(job: dict[str, Any], value: str, name: str) -> None:
    """Another key, input or job number is a mismatch that names it, whatever else is said."""
    found = heard(200, job | {name: value}, {"remote_job_id": "job-7"})
    assert found.status == "mismatch"
    assert value in found.evidence
    assert (found.receipt, found.job_id) == (None, None)


@pytest.mark.parametrize("name", ["idempotency_key", "input_sha256", "job_id"])
@pytest.mark.parametrize("value", [None, "", 7, True, ["job-7"], {}, "absent"])
def test_an_answer_that_does_not_say_what_it_is_about(name: str, value: Any) -> None:
    """Without its key, input and number in words, even a success says nothing."""
    for job in (DONE, FAILED, RUNS):
        less = {k: v for k, v in job.items() if k != name}
        assert heard(200, less if value == "absent" else less | {name: value}).status == "no_answer"


@pytest.mark.parametrize("receipt", [None, "report-7", [RECEIPT], 1, True])
def test_a_success_needs_its_receipt(receipt: Any) -> None:
    """Completed without a document is remembered as said, and is no success."""
    found = heard(200, JOB | {"receipt": receipt})
    assert (found.status, found.said, found.job_id) == ("no_answer", "completed", "job-7")
    assert heard(200, JOB).status == "no_answer"


@pytest.mark.parametrize("name", ABOUT)
@pytest.mark.parametrize("value", ["another", None, 1, "absent"])
def test_a_receipt_of_another_operation(name: str, value: Any) -> None:
    """A receipt must itself name this key and this input."""
    receipt = {k: v for k, v in RECEIPT.items() if k != name or value != "absent"}
    receipt |= {} if value == "absent" else {name: value}
    assert heard(200, JOB | {"receipt": receipt}).status == "mismatch"


@pytest.mark.parametrize("version", ["v2", "V1", "v1 "])
def test_another_version_is_not_read_with_old_rules(version: str) -> None:
    """A new interface may mean something else by the same words."""
    for job in (DONE, RUNS, FAILED):
        assert heard(200, job, api_version=version).status == "mismatch"
    assert heard(200, DONE, api_version="v1").status == "completed"


@pytest.mark.parametrize("status", [400, 404, 409, 422])
@pytest.mark.parametrize("code", ["unknown_operation", "invalid_input"])
def test_another_version_refuses_nothing(status: int, code: str) -> None:
    """Neither "not found" nor a refusal is read by the rules of another version."""
    found = heard(status, {"code": code}, api_version="v2")
    assert found.status not in {Remote.FAILED, Remote.NOT_FOUND}


@pytest.mark.parametrize("times", [2, 0, 1.5, "1", None, [1], True])
def test_more_than_one_execution_is_an_alarm(times: Any) -> None:
    """The receipt counts, and a person hears of it; the service's own count is shown."""
    found = heard(200, DONE | {"executions": times})
    assert found.status == "completed"
    if times is not True:  # which Python takes for 1
        assert repr(times) in found.alarm


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        ("0", 0.0),
        ("31536000", 31_536_000.0),
        ("1e308", 1e308),
        ("1e309", None),
        ("-1", None),
        ("nan", None),
        ("inf", None),
        ("", None),
        ("soon", None),
        ("Wed, 21 Oct 2026 07:28:00 GMT", None),
    ],
)
def test_when_the_service_wants_to_be_asked(header: str, seconds: float | None) -> None:
    """A number of seconds is taken as it is, anything else as no wish."""
    for status, body in ((429, b""), (503, b""), (409, {"code": "in_progress"})):
        assert heard(status, body, retry_after=header).retry_after == seconds


# --- nothing becomes an outcome by accident -----------------------------------------------

LEAVES = (
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.sampled_from(["job-7"])
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.dictionaries(st.text(max_size=3), inner), max_leaves=3
)
WORDS = st.sampled_from([KEY, SHA, "completed", "running", "failed", "op-2", "job-7", "job-8"])
SPOILT = st.dictionaries(st.sampled_from([*DONE, "code", "error"]), WORDS | VALUES, max_size=3)
RECEIPTS = st.just(RECEIPT) | st.dictionaries(st.sampled_from([*RECEIPT]), WORDS, max_size=4)
CODES = st.sampled_from(["invalid_input", "unknown_operation", "in_progress", "key_reused", "x"])
BODIES = st.builds(
    lambda job, spoilt, receipt: {**job, **spoilt, **({"receipt": receipt} if receipt else {})},
    st.sampled_from([DONE, RUNS, FAILED, {}]),
    SPOILT,
    st.none() | RECEIPTS,
) | st.builds(lambda code: {"code": code}, CODES)
STATUSES = st.sampled_from([200, 201, 202, 302, 400, 404, 409, 422, 429, 500, 503])


@given(BODIES, STATUSES, st.sampled_from([None, "job-7"]))
@example(DONE, 200, "job-7")
@example(FAILED, 202, None)
def test_an_outcome_is_the_service_s_own_word(body: Any, status: int, number: str | None) -> None:
    """Completed and failed are heard if, and only if, this operation's own job says so."""
    found = heard(status, body, {"remote_job_id": number})
    names = all(body.get(name) == value for name, value in ABOUT.items())
    job_id = body.get("job_id")
    numbered = isinstance(job_id, str) and job_id != "" and number in {None, job_id}
    receipt = body.get("receipt")
    held = isinstance(receipt, dict) and all(receipt.get(k) == v for k, v in ABOUT.items())
    ours = status in JOBS and names and numbered
    assert (found.status == "completed") == (ours and held and body["status"] == "completed")
    refused = status in {400, 409, 422} and body.get("code") == "invalid_input"
    assert (found.status == "failed") == (refused or (ours and body["status"] == "failed"))
    assert (found.receipt is not None) == (found.status == "completed")
    assert found.evidence


@given(st.binary(max_size=60), st.integers(-1, 999), st.text(max_size=20))
def test_bytes_are_never_an_outcome(body: bytes, status: int, kind: str) -> None:
    """Whatever comes back, reading it raises nothing and concludes nothing."""
    found = read_reply(operation(), Reply(status, {"content-type": kind}, body))
    assert found.status in {Remote.NO_ANSWER, Remote.BUSY}
