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
import json
import os
import signal
import socket
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import make_url
from sqlalchemy.exc import DBAPIError

from lai.approval import visible
from lai.operations.client import Client
from lai.operations.records import Operation, OperationError, State
from lai.operations.references import References
from lai.operations.review import RISK, Decision, Outcome, question, resolve
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
    try:
        with Store(options.database) as store:
            match options.command:
                case "list":
                    _list(store)
                case "show":
                    _show(store, store.get(options.id))
                case "resolve":
                    _resolve(store, options)
                case "create-report":
                    _create(store, options)
                case _:
                    _run(store, options)
    except BrokenPipeError:  # the reader went away; there is nobody left to tell
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (LaiError, OSError, DBAPIError) as error:
        told = f"the database refuses: {error.orig}" if isinstance(error, DBAPIError) else error
        print(f"lai.operations: {visible(' '.join(str(told).split()))}", file=sys.stderr)
        return 2
    return 0


def recover(worker: Worker, stop: threading.Event, *, once: bool = False) -> int:
    """Work on what is due until told to stop, or until nothing is; how many steps that were."""
    done = 0
    while not stop.is_set():
        try:
            after = worker.work_once()
        except ClaimLost as error:
            print(f"  {error}; what was heard is in its log", flush=True)
            continue
        if after is not None:
            done += 1
            print(
                f"  {_time(worker.store.now())}  {after.operation_id}  {_short(after)}", flush=True
            )
        elif once:
            break
        else:
            stop.wait(IDLE)
    return done


@contextmanager
def _worker(store: Store, options: argparse.Namespace) -> Iterator[Worker]:
    if not options.service:
        raise OperationError("name the service to ask: --service http://127.0.0.1:PORT")
    with Client(options.service, timeout=options.timeout) as client:
        yield Worker(
            store=store,
            references=_references(options),
            service=client,
            contract=contract(PROFILES[options.profile]),
            owner=f"{socket.gethostname()}:{os.getpid()}:{os.urandom(3).hex()}",
            lease=options.lease,
        )


def _run(store: Store, options: argparse.Namespace) -> None:
    with _worker(store, options) as worker:
        stop = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        print(f"{worker.owner} is at work; Ctrl-C ends it after the step it is at", flush=True)
        done = recover(worker, stop, once=options.once)
        print(f"{worker.owner} stops after {done} step(s)", flush=True)


def _create(store: Store, options: argparse.Namespace) -> None:
    name, body = f"op-{uuid.uuid4().hex[:12]}", {"title": options.title, "lines": options.lines}
    with _worker(store, options) as worker:
        worker.plan(name, body, run_id="command-line", tool_name=CREATE)
        print(visible(f"{name}  {_short(worker.work_on(name))}"))


def _list(store: Store) -> None:
    found = store.all()
    for known in sorted(found, key=lambda one: one.state is not State.REVIEW_REQUIRED):
        print(visible(f"{known.operation_id}  {_short(known)}"))
    print(f"{len(found)} operation(s)")


def _show(store: Store, known: Operation) -> None:
    print(json.dumps(known.record(), ensure_ascii=False, indent=2))
    if known.state is State.REVIEW_REQUIRED:
        print(*map(visible, question(known)), sep="\n")
    for event in store.events(known.operation_id):
        said = f"  {_time(event['at'])}  {event['kind']:<15}  {event['evidence']}  ({event['by']})"
        print(visible(said))


def _resolve(store: Store, options: argparse.Namespace) -> None:
    known = store.get(options.id)
    decision = Decision(
        Outcome(options.outcome), options.evidence, options.by, risk_read=options.risk_read
    )
    after = resolve(store, _references(options), known, decision)
    print(visible(f"{after.operation_id}  {known.state} → {_short(after)}"))


def _short(known: Operation) -> str:
    """State, attempts, and what comes next, in one line."""
    ahead = {
        State.UNKNOWN: f"ask again at {_time(known.next_query_at)}",
        State.PLANNED: "to be sent",
        State.PENDING: f"{known.owner} is at it" if known.owner else "to be asked about",
        State.REVIEW_REQUIRED: f"missing: {known.review_reason}",
        State.SUCCEEDED: f"{known.result_ref}",
    }
    return f"{known.state:<15}  attempt {known.attempt}  {ahead.get(known.state, '')}".rstrip()


def _time(moment: float | None) -> str:
    return "any time" if moment is None else time.strftime("%H:%M:%S", time.localtime(moment))


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
    made["resolve"].add_argument("--by", default=getpass.getuser(), help="who says so")
    made["resolve"].add_argument("--risk-read", action="store_true", help=RISK)
    return parser


if __name__ == "__main__":
    sys.exit(main())
