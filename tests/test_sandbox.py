"""The sandboxes: what a command reaches is counted outside of it, in files and connections."""

import os
import pwd
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from walls import contents, kind, run, tag, tagged, within, ws

from lai import Run, landlock, sandbox, session_path
from lai import workspace_tools as tools
from lai.sandbox import TABLE, Sandbox

__all__ = ["kind", "tag", "ws"]  # fixtures
ROOT = Path(__file__).parents[1]
ABI = landlock.version()
PROOF = os.environ.get("LAI_PROOF") == "1"  # each way out alone, not all in one command


def out(ws: Path) -> Path:
    """The folder beside the workspace."""
    return ws.parent / "outside"


# --- what still works ---------------------------------------------------------------------

COMMIT = "git -c user.name=n -c user.email=e@e commit -qm 书"
WORKS = {
    "a new file": ("echo 书 > 新.txt; cat 新.txt", "书\n"),
    "folders, renames, links": (
        "mkdir -p a/b; echo 1 > a/x; mv a/x a/b/y; ln a/b/y z; cat z",
        "1\n",
    ),
    "listing": ("touch 一 二; ls", "一\n二\n"),
    "git": (f"git init -q . && : > f && git add f && {COMMIT} && git log --format=%s", "书\n"),
    "python": (f"'{sys.executable}' -c 'import pydantic; print(1)'", "1\n"),
    "temporary files": ('f=$(mktemp) && echo 1 > "$f" && cat "$f"; cat <<< 2', "1\n2\n"),
    "a home": ("cd && echo 1 > x && cat ~/x", "1\n"),
    "devices": ("echo 1 > /dev/null; head -c 2 /dev/zero | wc -c; cat < /dev/null", "2\n"),
    "substitution": ("cat <(echo 1) | tee >(cat > t) > /dev/stdout", "1\n"),
    "background work": ("echo 1 > x & wait; cat x", "1\n"),
}


@pytest.mark.parametrize("name", WORKS)
def test_ordinary_work_goes_on(ws: Path, kind: str, name: str) -> None:
    """What people do with a shell works in the workspace, and nothing is left outside of it."""
    command, expected = WORKS[name]
    before = contents(out(ws))
    result = run(ws, command, kind)
    assert (result["output"], result["exit_code"], result["sandbox"]) == (expected, 0, kind)
    assert contents(out(ws)) == before


def test_files_belong_to_the_person(ws: Path, kind: str) -> None:
    """A file made in the sandbox has the owner and the mode of any other."""
    run(ws, "umask 022; echo 1 > f; pwd > 'where'", kind)
    assert ((ws / "f").stat().st_uid, (ws / "f").stat().st_mode & 0o777) == (os.getuid(), 0o644)
    assert (ws / "where").read_text("utf-8") == f"{ws}\n"


def test_large_output_is_in_its_artifact(ws: Path, kind: str) -> None:
    """What is too much for the result is read on with read_file, in any sandbox."""
    result = run(ws, "seq 40000", kind)
    assert result["truncated"]
    whole = "".join(f"{n}\n" for n in range(1, 40001))
    assert (ws / result["artifact_path"]).read_text("utf-8") == whole
    page = tools(ws, sandbox=kind)[0].run({"path": result["artifact_path"]}, Run("", ""))
    assert whole.startswith(page["content"])


@pytest.mark.parametrize(("command", "code"), [("exit 3", 3), ("没有", 127), ("exec false", 1)])
def test_how_it_ended_comes_through(ws: Path, kind: str, command: str, code: int) -> None:
    """The exit code is that of the command."""
    assert run(ws, command, kind)["exit_code"] == code


# --- what does not ------------------------------------------------------------------------

WRITES = {
    "a new file": 'echo x > "$OUT/new"',
    "an existing file": 'echo x > "$OUT/账.txt"',
    "appending": 'echo x >> "$OUT/账.txt"',
    "truncating": 'truncate -s 0 "$OUT/账.txt"',
    "removing": 'rm -f "$OUT/账.txt"',
    "renaming out": 'echo x > mine; mv mine "$OUT/new"',
    "renaming in": 'mv "$OUT/账.txt" mine',
    "a link to it, then through it": 'ln -s "$OUT" link; echo x > link/new',
    "a hard link to it": 'ln "$OUT/账.txt" link && echo x > link',
    "a folder": 'mkdir "$OUT/new"',
    "a named pipe": 'mkfifo "$OUT/new"',
    "up and out": 'cd "$OUT" && : > new',
    "through a process's own root": 'echo x > "/proc/self/root$OUT/new"',
    "through python": f"""'{sys.executable}' -c 'import os; open(os.environ["OUT"] + "/n", "w")'""",
    "a start-up file": 'echo x >> "$WAS/.bashrc"',
    "a key": 'mkdir -p "$WAS/.ssh" && echo x >> "$WAS/.ssh/authorized_keys"',
    "mounting": 'mount -o remount,rw / ; mount --bind . "$OUT" && echo x > "$OUT/new"',
    "a namespace of its own": "unshare -rm sh -c 'mount -o remount,rw /; echo x > \"$OUT/new\"'",
}


def test_what_is_hidden_takes_nothing(ws: Path, kind: str) -> None:
    """A write into a folder that is hidden fails: nothing seems to be kept that is not."""
    file = Path("/var/tmp") / f"lai-{ws.parent.name}"  # noqa: S108
    result = run(ws, f": > {file}", kind)
    written = file.exists()
    file.unlink(missing_ok=True)
    assert (result["status"], written) == ("failed", False)


def test_the_system_itself_is_read_only(ws: Path) -> None:
    """By the kernel's own list, what is mounted writable is the workspace and what is private."""
    if "bubblewrap" not in sandbox.available():
        pytest.skip("bubblewrap does not work here")
    rows = run(ws, "cat /proc/self/mounts", "bubblewrap")["output"].splitlines()
    mounts = [(row.split()[1], row.split()[3].split(",")[0]) for row in rows]
    mine = ("/tmp", "/proc", "/dev", str(ws).replace(" ", r"\040"))  # noqa: S108
    elsewhere = {at for at, way in mounts if way == "rw" and not at.startswith(mine)}
    assert elsewhere == set()
    assert ("/", "ro") in mounts


@pytest.fixture
def home(ws: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with things in it that are nobody's business."""
    folder = ws.parent / "home"
    (folder / ".ssh").mkdir(parents=True)
    (folder / ".ssh" / "id").write_text("私钥", "utf-8")
    (folder / ".bashrc").write_text("# mine\n")
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("WAS", str(folder))
    monkeypatch.setenv("OUT", str(out(ws)))
    return folder


@pytest.mark.parametrize("names", [list(WRITES), *([n] for n in WRITES if PROOF)])
def test_nothing_outside_is_written(ws: Path, home: Path, kind: str, names: list[str]) -> None:
    """No way to write leads out of the workspace; without a sandbox most of them do."""
    before = contents(out(ws)), contents(home)
    tries = [f"(mkdir {n}; cd {n}; {WRITES[name]})" for n, name in enumerate(names)]
    result = run(ws, "; ".join([*tries, "echo tried"]), kind)
    assert result["output"].endswith("tried\n")
    assert (contents(out(ws)), contents(home)) == before


def test_the_ways_out_are_real(ws: Path, home: Path) -> None:
    """The same commands, without a sandbox, reach what they aim at: the test above can fail."""
    del home
    run(ws, "; ".join(WRITES[name] for name in ("a new file", "appending", "a key")), "none")
    assert (out(ws) / "new").read_text() == "x\n"
    assert (out(ws) / "账.txt").read_text("utf-8") == "旧x\n"


def test_the_home_folder_cannot_be_read(ws: Path, home: Path, kind: str) -> None:
    """Neither the folder of HOME nor the one that the system names gives anything away."""
    result = run(ws, 'cat "$WAS/.ssh/id" "$WAS/.bashrc"', kind)
    assert result["status"] == "failed"
    assert "私钥" not in result["output"]
    assert "mine" not in result["output"]
    real = Path(pwd.getpwuid(os.getuid()).pw_dir)
    files = [path for path in real.iterdir() if path.is_file()] if real != Path("/") else []
    looked = "; ".join(f"head -c 0 '{path}' && echo seen" for path in files)
    assert "seen\n" not in run(ws, looked or "true", kind)["output"]
    del home


def test_the_agents_records_are_out_of_reach_in_bubblewrap(ws: Path) -> None:
    """In bubblewrap .agent_state is empty and read-only; that landlock cannot, the table says."""
    path = session_path(ws)
    path.parent.mkdir()
    path.write_text("记录\n", "utf-8")
    reached = f"cat {path}; echo 假 >> {path}; mv .agent_state x; rm -rf .agent_state"
    for name in ("bubblewrap", "landlock"):
        if name in sandbox.available():
            path.write_text("记录\n", "utf-8")
            run(ws, reached, name)
            kept = path.exists() and path.read_text("utf-8") == "记录\n"
            said = TABLE[".agent_state, the agent's records"][Sandbox(name)]
            assert kept == (said != "not protected") == (name == "bubblewrap")


CONNECT = """
import socket, sys
for way in (lambda: socket.create_connection(("127.0.0.1", int(sys.argv[1])), 5),
            lambda: socket.socket().bind(("127.0.0.1", 0))):
    try: way(); print("open")
    except OSError as error: print("closed")
"""


@pytest.mark.parametrize("name", ["none", "bubblewrap", "landlock"])
def test_nobody_is_connected(ws: Path, name: str, request: pytest.FixtureRequest) -> None:
    """A service on this machine hears of a command without a sandbox, and of no other."""
    if name not in sandbox.available() or (name == "landlock" and ABI < 4):
        pytest.skip(f"{name} does not keep a command from the network here")
    del request
    (ws / "c.py").write_text(CONNECT)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        result = run(ws, f"'{sys.executable}' c.py {server.getsockname()[1]}", name)
        try:
            server.accept()[0].close()
            heard = True
        except BlockingIOError:
            heard = False
    assert heard == (name == "none")
    inside = "open" if name == "bubblewrap" else "closed"  # a network of its own: nobody is there
    assert result["output"].split() == (["open"] * 2 if heard else ["closed", inside])


def test_bubblewrap_keeps_from_local_sockets_and_datagrams(ws: Path) -> None:
    """No socket in a file or by a name is reached, and no datagram leaves."""
    if "bubblewrap" not in sandbox.available():
        pytest.skip("bubblewrap does not work here")
    with socket.socket(socket.AF_UNIX) as named, socket.socket(type=socket.SOCK_DGRAM) as datagrams:
        named.bind("\0lai-test-" + ws.parent.name)
        named.listen()
        named.settimeout(0)
        datagrams.bind(("127.0.0.1", 0))
        datagrams.settimeout(0)
        code = (
            "import socket\n"
            f"socket.socket(type=2).sendto(b'x', ('127.0.0.1', {datagrams.getsockname()[1]}))\n"
            f"socket.socket(1).connect('\\0lai-test-{ws.parent.name}')\n"
        )
        (ws / "c.py").write_text(code)
        assert "refused" in run(ws, f"'{sys.executable}' c.py 2>&1", "bubblewrap")["output"]
        for heard in (named.accept, lambda: datagrams.recv(1)):
            with pytest.raises(BlockingIOError):
                heard()


def test_other_processes_are_out_of_reach(ws: Path, kind: str) -> None:
    """No environment of another process is read, none is traced, and none is signalled."""
    if kind == "landlock" and ABI < 6:
        pytest.skip("this kernel's landlock does not know signals")
    other = subprocess.Popen(["sleep", "60"], env={**os.environ, "HIDDEN_WORD": "藏"})
    try:
        assert within(5, lambda: b"HIDDEN" in Path(f"/proc/{other.pid}/environ").read_bytes())
        me = os.getpid()
        tried = f"cat /proc/{other.pid}/environ; kill -9 {other.pid}; kill -0 {me} && echo 到"
        result = run(ws, tried, kind)
        assert "藏" not in result["output"]
        assert "到" not in result["output"]
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


# --- what it leaves behind ----------------------------------------------------------------

DAEMON = "(setsid sh -c 'echo $$ > daemon; exec sleep 60' > /dev/null 2>&1 &) ; sleep 60 & "


@pytest.mark.parametrize(("ending", "timeout"), [("echo 好", 20), ("sleep 60", 1)])
def test_nothing_outlives_a_command_in_bubblewrap(
    ws: Path, tag: str, ending: str, timeout: float
) -> None:
    """Daemons and children end with the shell, and with its time, and none is reported."""
    if "bubblewrap" not in sandbox.available():
        pytest.skip("bubblewrap does not work here")
    result = run(
        ws, f"{DAEMON} while ! [ -s daemon ]; do :; done; {ending}", "bubblewrap", timeout=timeout
    )
    assert result["timed_out"] == (ending == "sleep 60")
    assert (result["children_left"], "may_still_run" in result) == (0, False)
    assert tagged(tag) == []


def test_what_outlives_a_command_in_landlock_is_named(ws: Path, tag: str) -> None:
    """The table says that it goes on; the result says which processes those are."""
    if "landlock" not in sandbox.available():
        pytest.skip("landlock does not work here")
    result = run(ws, f"{DAEMON} while ! [ -s daemon ]; do :; done", "landlock")
    assert result["may_still_run"] == tagged(tag)
    assert result["children_left"] == 2


def test_no_temporary_file_is_left(ws: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder for temporary files is the command's own and goes with it."""
    place = ws.parent / "tmp"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    assert run(ws, 'echo 1 > "$TMPDIR/x"; ls -A "$TMPDIR" > seen', kind)["exit_code"] == 0
    assert "x\n" in (ws / "seen").read_text()
    assert list(place.iterdir()) == []


AGENT = """
import sys
from lai import Run, workspace_tools
tool = workspace_tools(sys.argv[1], sandbox=sys.argv[2])[2]
tool.run({"command": "setsid sleep 60 & : > started; sleep 60"}, Run("exec_1", "k"))
"""


def test_the_death_of_the_agent_ends_a_command_in_bubblewrap(ws: Path, tag: str) -> None:
    """SIGKILL the agent: no process of its command is left, a daemon neither."""
    if "bubblewrap" not in sandbox.available():
        pytest.skip("bubblewrap does not work here")
    agent = subprocess.Popen([sys.executable, "-c", AGENT, ws, "bubblewrap"], cwd=ROOT)
    assert within(20, (ws / "started").exists)
    assert len(tagged(tag)) >= 3
    agent.send_signal(signal.SIGKILL)
    agent.wait()
    assert within(10, lambda: tagged(tag) == [])


@pytest.mark.parametrize("name", ["bubblewrap", "landlock"])
def test_modes_are_kept_by_one_and_the_table_says_so(ws: Path, name: str) -> None:
    """A change of mode outside is refused by bubblewrap; that landlock lets it pass is told."""
    if name not in sandbox.available():
        pytest.skip(f"{name} does not work here")
    file = out(ws) / "账.txt"
    run(ws, f"chmod 741 '{file}'", name)
    changed = file.stat().st_mode & 0o777 == 0o741
    assert changed == ("modes" in TABLE["it can write"][Sandbox(name)]) == (name == "landlock")
