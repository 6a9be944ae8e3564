"""A key in the environment is in no file, log, error, prompt or output; files are private.

The secrets are looked for outside: in every byte below the workspace, in what was printed, and
in every request that the model got. What is not promised: a command that reads another
process's environment in /proc or a file that holds a secret prints what is there.
"""

import asyncio
import base64
import io
import json
import os
import stat
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from test_attacks import Scene, tree
from toolkit import agent, write_log

from lai import Agent, LaiError, ModelError, Session, SessionError, session_path, workspace_tools
from lai.course.widgets import Card, Prompt
from lai.models import FAILURES, model_from_environment, openai_model

KEY = "sk-proj-7Qw书eRtYuIoPaSdFgHjKlZxCvBnM1234567890".replace("书", "x")
WORD = "hunter2-Correct-Horse"
# What people keep in their environment, by the names that tools document.
SECRET_NAMES = """
OPENAI_API_KEY ANTHROPIC_API_KEY OPENAI_KEY AZURE_OPENAI_API_KEY GEMINI_API_KEY HF_TOKEN
HUGGING_FACE_HUB_TOKEN AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN AWS_ACCESS_KEY_ID GITHUB_TOKEN
GH_TOKEN GITHUB_PAT GITLAB_TOKEN NPM_TOKEN PYPI_PASSWORD TWINE_PASSWORD DB_PASSWORD DB_PASS
PGPASSWORD
MYSQL_PWD MYSQL_PASSWORD REDIS_PASSWORD SECRET_KEY DJANGO_SECRET STRIPE_SECRET_KEY SLACK_BOT_TOKEN
GOOGLE_APPLICATION_CREDENTIALS AZURE_CLIENT_SECRET AZURE_STORAGE_ACCOUNT_KEY SENTRY_AUTH_TOKEN
SSH_PASSPHRASE GPG_PASSPHRASE ENCRYPTION_KEY SIGNING_KEY PRIVATE_KEY JWT_SECRET VAULT_TOKEN
SENTRY_DSN
openai_api_key My_Api_Key
""".split()
ADDRESSES = {
    "DATABASE_URL": f"postgresql://me:{WORD}@db.invalid/x",
    "REDIS_URL": f"redis://:{WORD}@cache.invalid:6379/0",
    "OPENAI_BASE_URL": f"http://me:{WORD}@127.0.0.1:1/v1",
    "AMQP": f"amqps://me:{WORD}@mq.invalid",
}
PIECES = [KEY, WORD, *(KEY[i : i + 12] for i in range(0, len(KEY) - 12, 6))]
PIECES += [base64.b64encode(KEY.encode()).decode(), KEY[::-1]]


@pytest.fixture
def secretive(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment full of secrets."""
    for name in SECRET_NAMES:
        monkeypatch.setenv(name, KEY)
    for name, value in ADDRESSES.items():
        monkeypatch.setenv(name, value)


def found(*places: Any) -> list[str]:
    """The pieces of a secret that are in these texts, or in files below these folders."""
    data = b""
    for place in places:
        files = (
            [file for file in place.rglob("*") if file.is_file()] if isinstance(place, Path) else []
        )
        data += b"".join(file.read_bytes() + os.fsencode(file.name) for file in files)
        data += b"" if isinstance(place, Path) else str(place).encode("utf-8", "replace")
    return [piece for piece in PIECES if piece.encode() in data]


def test_the_search_finds_what_it_looks_for(tmp_path: Path) -> None:
    """A key in a file, in part or whole, is found by this test's own search."""
    (tmp_path / "a").write_text(f"…{KEY[3:30]}…")
    assert found(tmp_path)
    assert found({"x": KEY})
    assert not found("sk-proj", tmp_path / "none")


@pytest.mark.usefixtures("secretive")
def test_a_command_finds_no_secret_in_its_environment(scene: Scene) -> None:
    """Whatever prints the environment prints no secret, so that none is kept or sent to a model."""
    printers = ["env", "export -p", "set", "printenv", "declare -p", "cat /proc/self/environ",
                "python3 -c 'import os; print(os.environ)'", "echo $OPENAI_API_KEY$DB_PASS",
                "sh -c env", "env -i bash -c set", "bash -xc 'env' 2>&1"]  # fmt: skip
    results = scene.bash(*printers)
    assert not found(json.dumps(results), scene.folder)
    assert "PATH=" in results[0]["output"]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def echo(status: int, wrap: Callable[[str], str]) -> Callable[[httpx2.Request], httpx2.Response]:
    """A provider that fails and quotes the key it was sent."""

    def handle(request: httpx2.Request) -> httpx2.Response:
        sent = request.headers["authorization"]
        return httpx2.Response(status, text=wrap(sent), headers={"x-key": sent})

    return handle


def as_json(said: str) -> str:
    return json.dumps({"error": {"message": f"Incorrect API key: {said}. 书", "code": said}})


def as_stream(said: str) -> str:
    return f'data: {{"error": {{"message": "no {said}"}}}}\n\n'


def as_half(said: str) -> str:
    return f"<html>{said[:30]}</html>"


def unreachable(request: httpx2.Request) -> httpx2.Response:
    raise httpx2.ConnectError(f"cannot reach {request.url} with {request.headers['authorization']}")


PROVIDERS = [echo(s, w) for s in (200, 400, 401, 403, 404, 429, 500, 302)
             for w in (as_json, as_half, as_stream)] + [unreachable]  # fmt: skip


@pytest.mark.parametrize("handle", PROVIDERS)
def test_an_error_of_a_provider_quotes_no_key(
    tmp_path: Path, handle: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """A provider that repeats the key leaves no piece of it in error, traceback, log or session."""
    caplog.set_level(0)
    client = openai.OpenAI(
        api_key=KEY, base_url="http://far.invalid/v1", max_retries=0,
        http_client=httpx2.Client(transport=httpx2.MockTransport(handle), trust_env=False),
    )  # fmt: skip
    path = tmp_path / ".agent_state/session-t.jsonl"
    with Session.open(path) as session:
        made = Agent(session, openai_model(client, "m"), workspace_tools(tmp_path), None)
        with pytest.raises(ModelError) as caught:
            made.run("你好")
    error = caught.value
    chain = [*traceback.format_exception(error), repr(error), error.__cause__, error.__context__]
    assert not isinstance(error.__context__, FAILURES)
    assert not found(*chain, tmp_path, caplog.text)


def chat(root: Path, **env: str) -> "subprocess.CompletedProcess[str]":
    """A chat with a live model that cannot be reached."""
    return subprocess.run(
        [sys.executable, "-m", "lai", "--workspace", str(root)],
        cwd=Path(__file__).parents[1], input="你好\n/context\n", text=True, capture_output=True,
        env={**os.environ, "AGENT_SESSION_ID": "t", **env}, check=False, timeout=60,
    )  # fmt: skip


@pytest.mark.usefixtures("secretive")
@pytest.mark.parametrize(
    "address",
    [f"http://me:{WORD}@127.0.0.1:1/v1", f"http://me:{WORD}@/v1", f"http://{WORD}:x",
     f"me:{WORD}@127.0.0.1:1"],
)  # fmt: skip
def test_the_chat_prints_and_keeps_no_secret(tmp_path: Path, address: str) -> None:
    """With a password in the address the start, the error and the session show none of it."""
    done = chat(tmp_path, OPENAI_BASE_URL=address, OPENAI_API_KEY=KEY)
    assert "Traceback" not in done.stderr
    assert done.stdout + done.stderr
    hidden = [w for w in found(done.stdout, done.stderr, tmp_path) if f"http://{w}:x" != address]
    assert hidden == []


@pytest.mark.usefixtures("secretive")
def test_a_question_and_what_a_notebook_prints_hold_no_secret(scene: Scene) -> None:
    """No question, card or printed decision takes anything from the environment."""
    scene.bash("echo $OPENAI_API_KEY", answer="n")
    [question] = scene.questions
    card = Card(question)
    card.decide("n")
    assert asyncio.run(card.answer()) == "n"
    assert not found(question, repr(question), card.box.children[0].value, repr(Prompt()))


@pytest.mark.usefixtures("secretive")
def test_an_address_with_a_password_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would stand in logs; the refusal quotes none of it. Without it, name and host are told."""
    with pytest.raises(ModelError, match="OPENAI_BASE_URL") as refusal:
        model_from_environment()
    assert not found(refusal.value)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://far.invalid/v1/@me")
    _, description = model_from_environment()
    assert description.endswith(" at far.invalid")
    assert not found(description)


# --- who may read what is kept


@pytest.fixture(params=[0, 0o022, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def modes(folder: Path) -> set[tuple[bool, int]]:
    """Kind and permission bits of a folder and everything in it."""
    there = [folder, *folder.rglob("*")]
    return {(path.is_dir(), stat.S_IMODE(path.stat().st_mode)) for path in there}


PRIVATE = {(True, 0o700), (False, 0o600)}


@pytest.mark.usefixtures("umask")
def test_everything_that_is_kept_is_for_its_owner_alone(tmp_path: Path) -> None:
    """Whatever the umask: folders 0700, files 0600, artifacts and the lock among them."""
    calls = [("run_bash", {"command": "seq 20000"})]
    root = tmp_path / "ws"
    root.mkdir()
    with agent(session_path(root), [calls, "完"], workspace_tools(root), lambda _: "y") as made:
        made.run("做")
    assert modes(root / ".agent_state") == PRIVATE


def test_a_state_folder_that_others_can_use_is_shut(tmp_path: Path) -> None:
    """One that was there with 0777, and a session with 0644 in it, become private when opened."""
    path = write_log(session_path(tmp_path))
    path.chmod(0o644)
    path.parent.chmod(0o777)
    Session.open(path).close()
    assert modes(path.parent) == PRIVATE


def link_folder(root: Path, out: Path) -> None:
    (root / ".agent_state").symlink_to(out)


def link_away(root: Path, out: Path) -> None:
    (root / ".agent_state").symlink_to(out / "missing")


def link_session(root: Path, out: Path) -> None:
    (root / ".agent_state").mkdir()
    (root / ".agent_state/session-demo.jsonl").symlink_to(out / "bashrc")


def link_lock(root: Path, out: Path) -> None:
    (root / ".agent_state").mkdir()
    (root / ".agent_state/session-demo.jsonl.lock").symlink_to(out / "bashrc")


def link_new(root: Path, out: Path) -> None:
    (root / ".agent_state").mkdir()
    (root / ".agent_state/session-demo.jsonl").symlink_to(out / "new")


def hard_lock(root: Path, out: Path) -> None:
    (root / ".agent_state").mkdir()
    (root / ".agent_state/session-demo.jsonl.lock").hardlink_to(out / "bashrc")


def pipe_lock(root: Path, _: Path) -> None:
    (root / ".agent_state").mkdir()
    os.mkfifo(root / ".agent_state/session-demo.jsonl.lock")


def a_file(root: Path, _: Path) -> None:
    (root / ".agent_state").write_text("文")


TRAPS = [link_folder, link_away, link_session, link_lock, link_new, hard_lock, pipe_lock, a_file]


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.__name__)
def test_a_state_folder_that_leads_elsewhere_is_refused(
    tmp_path: Path, trap: Callable[[Path, Path], None]
) -> None:
    """A workspace that brings links for the agent's own files gets nothing written through them."""
    root, out = tmp_path / "ws", tmp_path / "out"
    for folder in (root, out):
        folder.mkdir()
    (out / "bashrc").write_text("alias x=1\n")
    trap(root, out)
    before = tree(out)
    with pytest.raises(SessionError, match=r"session|folder|lock"):
        Session.open(session_path(root))
    assert tree(out) == before


def test_a_state_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    """Records in a folder that another user owns are not trusted and not written."""
    folder = session_path(tmp_path).parent
    folder.mkdir(mode=0o777)
    try:
        os.chown(folder, 12345, 12345)
    except PermissionError:
        pytest.skip("only the superuser can give a folder away")
    with pytest.raises(SessionError, match="somebody else"):
        Session.open(session_path(tmp_path))
    assert list(folder.iterdir()) == []


# --- the client of remote operations


@pytest.mark.usefixtures("secretive")
def test_the_library_logs_nothing(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    """At the finest level of logging a turn with tools leaves no secret in any logger."""
    caplog.set_level(0)
    out = io.StringIO()
    results = scene.bash("env; echo $OPENAI_API_KEY; false", "cat missing")
    traceback.print_exception(LaiError(str(results)), file=out)
    assert not found(caplog.text, out.getvalue(), scene.folder)
