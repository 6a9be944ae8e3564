"""Recover operations until told to stop, and look at those that wait for a person.

    python -m lai.operations.worker --database URL --service URL          until Ctrl-C
    python -m lai.operations.worker --database URL --service URL create-report TITLE [LINE …]
    python -m lai.operations.worker --database URL list
    python -m lai.operations.worker --database URL show ID
    python -m lai.operations.worker --database URL resolve ID --outcome … --evidence …

As many at once as you like, on one database: claims keep them apart. Stopping one is safe
at any moment; Ctrl-C and SIGTERM let it finish the step it is at.

Exit codes: 0 done, 2 an error told in one line on stderr.
"""

import argparse
import getpass
import io
import os
import signal
import socket
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import make_url
from sqlalchemy.exc import IntegrityError

from lai.approval import visible
from lai.operations import show
from lai.operations.client import WAITS, Client
from lai.operations.databases import Busy
from lai.operations.records import OperationError
from lai.operations.references import References
from lai.operations.review import RISK, Decision, Outcome, resolve
from lai.operations.service.profiles import PROFILES, contract
from lai.operations.store import ClaimLost, Store
from lai.operations.tools import CREATE
from lai.operations.work import LEASE, Worker
from lai.records import LaiError

IDLE = 0.2  # seconds between two looks at a database in which nothing is due
COMMANDS = {
    "run": "recover what is due until told to stop (what it does without a command)",
    "create-report": "have a report made: store the intent, send once, say what is known",
    "list": "all operations, those that wait for a person first",
    "show": "one operation: its record, and all that was heard about it",
    "resolve": "record what a person decided about an operation",
}


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code. Nothing a user can cause shows a traceback."""
    options = _parser().parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):  # a name is shown, whatever the terminal knows
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        _require_existing(options)
        with Store(options.database) as store:
            match options.command:
                case "list":
                    show.everything(store)
                case "show":
                    show.one(store, store.get(options.id))
                case "resolve":
                    _resolve(store, options)
                case "create-report":
                    _create(store, options)
                case _:
                    _run(store, options)
    except BrokenPipeError:  # the reader went away; there is nobody left to tell
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        return 130
    except (LaiError, OSError, UnicodeError, IntegrityError) as error:
        told = error.orig if isinstance(error, IntegrityError) else error
        print(f"lai.operations: {visible(' '.join(str(told).split()))}", file=sys.stderr)
        return 2
    return 0


def _require_existing(options: argparse.Namespace) -> None:
    """Look only at a database that is there: a mistyped name would show an empty one."""
    kind, _, name = options.database.partition(":///")
    looks = options.command in {"list", "show", "resolve"}
    if looks and kind == "sqlite" and not Path(name).exists():
        raise OperationError(f"there is no database {name}; look at its name")


def recover(worker: Worker, stop: threading.Event, *, once: bool = False) -> int:
    """Work on what is due until told to stop, or until nothing is; how many steps that were."""
    done = 0
    while not stop.is_set():
        try:
            after = worker.work_once()
        except ClaimLost as error:
            print(visible(f"  {error}; what was heard is in its log"), flush=True)
            continue
        except Busy as error:
            print(f"  {error}; trying again", flush=True)
            stop.wait(IDLE)
            continue
        if after is not None:
            done += 1
            now = worker.store.now()
            said = f"  {show.clock(now, now)}  {after.operation_id}  {show.short(after, now)}"
            print(visible(said), flush=True)
        elif once:
            break
        else:
            stop.wait(IDLE)
    return done


@contextmanager
def _worker(store: Store, options: argparse.Namespace) -> Iterator[Worker]:
    if not options.service:
        raise OperationError("name the service to ask: --service http://127.0.0.1:PORT")
    if options.lease <= WAITS * options.timeout:
        raise OperationError(f"a lease of {options.lease:g} s is over before one answer may come")
    with Client(options.service, timeout=options.timeout) as client:
        yield Worker(
            store=store,
            references=_references(options),
            service=client,
            contract=contract(PROFILES[options.profile], options.scope),
            owner=f"{socket.gethostname()}:{os.getpid()}:{os.urandom(3).hex()}",
            lease=options.lease,
        )


def _run(store: Store, options: argparse.Namespace) -> None:
    with _worker(store, options) as worker:
        stop = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: sys.exit(130) if stop.is_set() else stop.set())
        print(f"{worker.owner} is at work; Ctrl-C ends it after the step it is at", flush=True)
        done = recover(worker, stop, once=options.once)
        print(f"{worker.owner} stops after {done} step(s)", flush=True)


def _create(store: Store, options: argparse.Namespace) -> None:
    name, body = f"op-{uuid.uuid4().hex[:12]}", {"title": options.title, "lines": options.lines}
    with _worker(store, options) as worker:
        worker.plan(name, body, run_id="command-line", tool_name=CREATE)
        print(visible(f"{name}  {show.short(worker.work_on(name), store.now())}"))


def _resolve(store: Store, options: argparse.Namespace) -> None:
    known = store.get(options.id)
    decision = Decision(
        Outcome(options.outcome),
        options.evidence,
        options.by or getpass.getuser(),
        risk_read=options.risk_read,
    )
    after = resolve(store, _references(options), known, decision)
    print(visible(f"{after.operation_id}  {known.state} → {show.short(after, store.now())}"))


def _references(options: argparse.Namespace) -> References:
    """The folder given, or the one beside a SQLite database."""
    if options.files:
        return References(Path(options.files))
    url = make_url(options.database)
    if url.get_backend_name() != "sqlite" or not url.database:
        raise OperationError("name the folder of inputs and receipts, shared by all: --files DIR")
    return References(Path(f"{url.database}.files"))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m lai.operations.worker",
        description="Recover remote operations whose outcome is open; several at once are fine.",
    )
    parser.add_argument("--database", required=True, help="sqlite:///FILE or postgresql://…")
    parser.add_argument("--files", help="folder of inputs and receipts (SQLite: FILE.files)")
    parser.add_argument("--service", help="address of the service to ask")
    parser.add_argument("--scope", default="report-service", help="what its keys are good for")
    parser.add_argument("--profile", choices=PROFILES, default="standard", help="what it promises")
    parser.add_argument("--timeout", type=float, default=5.0, help="seconds for one answer")
    parser.add_argument("--lease", type=float, default=LEASE, help="seconds a claim lasts")
    parser.add_argument("--once", action="store_true", help="stop when nothing is due")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    made = {name: commands.add_parser(name, help=text) for name, text in COMMANDS.items()}
    for name in ("show", "resolve"):
        made[name].add_argument("id", metavar="ID")
    made["create-report"].add_argument("title", metavar="TITLE")
    made["create-report"].add_argument("lines", metavar="LINE", nargs="*")
    made["resolve"].add_argument("--outcome", required=True, choices=[str(o) for o in Outcome])
    made["resolve"].add_argument("--evidence", required=True, help="what was seen, and where")
    made["resolve"].add_argument("--by", help="who says so (you)")
    made["resolve"].add_argument("--risk-read", action="store_true", help=RISK)
    return parser


if __name__ == "__main__":
    sys.exit(main())
