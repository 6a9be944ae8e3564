"""Three tools on one folder: ``read_file``, ``write_file``, ``run_bash``.

Each makes a different promise: reading changes nothing, writing a whole file leads to the
same state however often it is done, and of a command nobody knows anything. This module
says what the first two take, show and return; ``paths`` finds a file, ``replace`` replaces
it, ``shell`` runs a command.

Rules that live here and nowhere else:

1. Text is UTF-8 bytes and nothing is translated: line ends stay what they are, no
   character is cut in two, and a file that is not UTF-8 is refused, not guessed at.
2. ``check`` looks and never touches. What it refuses was refused before a person was
   asked; ``run`` refuses the same once more, because the disk moves on meanwhile.
3. A page of ``read_file`` has at most 50 KiB and, with what stands beside it, a quarter of
   the model's window, but always a character: whoever reads on gets to the end.
4. The file is compared with the versions an attempt may replace before a folder is made
   for it, and again at the last moment. An attempt that knows no version may only create
   the file, or repeat what is there already.

Folders made for a write that then fails (a full disk) stay, empty. This module does not
know sessions, approvals or retries.
"""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from math import inf
from pathlib import Path

from pydantic import Field

from lai import bounds, later, output, paths, reads, replace, shell
from lai.records import JSON
from lai.sandbox import chosen
from lai.tools import Arguments, Effect, Run, Tool, ToolError

READ_LIMIT = bounds.RESULT_BYTES


class ReadArguments(Arguments):
    """What ``read_file`` takes."""

    path: str = Field(description="Path of a text file, relative to the workspace.")
    offset: int = Field(
        default=0,
        ge=0,
        description="Byte to start at: 0, or the next_offset of the result before.",
    )


class WriteArguments(Arguments):
    """What ``write_file`` takes."""

    path: str = Field(description="Path of the file, relative to the workspace.")
    content: str = Field(description="The whole new content. It replaces all that is there.")


def workspace_tools(
    root: Path | str,
    *,
    timeout: float = 60.0,
    window: int | None = None,
    sandbox: str | None = None,
) -> tuple[Tool, Tool, Tool]:
    """``read_file``, ``write_file`` and ``run_bash`` on the folder ``root``.

    ``timeout`` is how many seconds a command may take. ``window`` is the model's context
    window in tokens: a result takes at most a quarter of it. ``sandbox`` is what a command
    must run in, ``bubblewrap``, ``landlock`` or ``none``; without a name it is the best that
    works here. Raises :class:`LaiError` for a window that holds nothing, and for a sandbox
    that does not work here. Linux and macOS only (see ``paths``).
    """
    root, room, kind = Path(root).absolute(), bounds.room(window), chosen(sandbox)
    read_file = Tool(
        name="read_file",
        description="Read a UTF-8 text file of the workspace, at most 50 KiB at a time.",
        arguments=ReadArguments,
        run=partial(_read, root, room),
        effect=Effect.READ_ONLY,
    )
    write_file = Tool(
        name="write_file",
        description="Create or replace a text file of the workspace; makes missing folders.",
        arguments=WriteArguments,
        run=partial(_write, root),
        effect=Effect.IDEMPOTENT,
        check=partial(_preview, root),
        since=partial(_since, root),
        version=partial(_version, root),
        wanted=_wanted,
    )
    return read_file, write_file, shell.run_bash_tool(root, timeout, room, kind)


def _read(root: Path, room: bounds.Room, arguments: JSON, run: Run) -> JSON:
    del run  # every attempt at reading is the same
    parts, offset = paths.split(arguments["path"], artifacts=True), arguments.get("offset", 0)
    path = "/".join(parts)
    with _folder_of(root, parts, "nothing was read") as (here, missing):
        descriptor = None if missing else paths.open_file(here, parts[-1])
        if descriptor is None:
            raise ToolError(f"{path!r}: there is no such file in the workspace", path=path)
        with os.fdopen(descriptor, "rb") as file:
            size = os.fstat(descriptor).st_size
            if offset > size:
                raise ToolError(f"{path!r} ends at byte {size}, before offset {offset}", path=path)
            file.seek(offset)
            chunk = file.read(READ_LIMIT + 1)
    more = len(chunk) > READ_LIMIT
    text = _text(_cut(chunk[:READ_LIMIT]) if more else chunk, offset, size, path)
    content = _page(text, path, size, room)
    more = more or len(content) < len(text)
    following = offset + len(content.encode()) if more else None
    return {"content": content, "path": path, "truncated": more, "next_offset": following}


def _page(text: str, path: str, size: int, room: bounds.Room) -> str:
    """As much of ``text`` as the window has room for. The bytes are bounded already."""
    fields = {"status": "completed", "content": "", "path": path, "truncated": False}
    beside = bounds.as_json({**fields, "next_offset": size})
    start = bounds.head(text, bounds.Room(inf, room.tokens).beside(beside))
    if len(start) == len(text):
        return text
    return start[: start.rfind("\n") + 1] or start or text[0]


def _cut(data: bytes) -> bytes:
    """As many whole lines as there are; of a longer line, as many whole characters."""
    return data[: data.rfind(b"\n") + 1] or output.whole_characters(data)


def _text(data: bytes, offset: int, size: int, path: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as cause:
        if offset and cause.start == 0 and data[0] in output.CONTINUATION:
            raise ToolError(
                f"{path!r}: no character starts at offset {offset}; it is inside one. "
                "Use 0 or a next_offset.",
                path=path,
            ) from cause
        raise ToolError(
            f"{path!r} is not UTF-8 text: it has {size} bytes, and byte {offset + cause.start} "
            "does not fit. Use run_bash to inspect or convert it.",
            path=path,
            bytes=size,
        ) from cause


def _preview(root: Path, arguments: JSON) -> JSON:
    """What a person is shown. Raises ToolError for what will never be written."""
    parts, data = paths.split(arguments["path"]), _encode(arguments)
    path = "/".join(parts)
    who = later.runs_later(path)
    said = {"executed_later": f"{who} runs or obeys this file by itself"} if who else {}
    shown = {"path": path, **said, "bytes": len(data), "preview": arguments["content"]}
    with _folder_of(root, parts, "nothing was written") as (here, missing):
        descriptor = None if missing else paths.open_file(here, parts[-1])
        if descriptor is None:
            there = len(parts) - 1 - len(missing)
            made = ["/".join(parts[: n + 1]) for n in range(there, len(parts) - 1)]
            return {"action": "create", **shown, **({"new_folders": made} if made else {})}
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            replace.kept_mode(status, path)
            old = file.read(reads.DIFF_LIMIT + 1)
    others = f"{status.st_nlink - 1} more, which keep the old content"
    names = {"other_names_of_the_file": others} if status.st_nlink > 1 else {}
    diff = reads.difference(old, data, path, ("now", "new"))
    return {"action": "overwrite", **shown, **names, "diff": diff}


def _since(root: Path, arguments: JSON, messages: list[JSON]) -> JSON:
    """What the model has not seen of the file as it is now."""
    parts = paths.split(arguments["path"])
    path = "/".join(parts)
    seen = reads.known(messages, path)
    size = max(reads.DIFF_LIMIT, seen.start + len(seen.data) if seen else 0)
    with _folder_of(root, parts, "nothing was written") as (here, missing):
        descriptor = None if missing else paths.open_file(here, parts[-1])
        if descriptor is None:
            return reads.since(seen, None, path)
        with os.fdopen(descriptor, "rb") as file:
            return reads.since(seen, file.read(size + 1), path)


def _version(root: Path, arguments: JSON) -> str | None:
    parts = paths.split(arguments["path"])
    with _folder_of(root, parts, "its version is not known") as (here, missing):
        return None if missing else replace.version(here, parts[-1])


def _encode(arguments: JSON) -> bytes:
    try:
        text: str = arguments["content"]
        return text.encode("utf-8")
    except UnicodeEncodeError as cause:
        raise ToolError(f"the content has no UTF-8 form: {cause}") from cause


def _wanted(arguments: JSON) -> str:
    return hashlib.sha256(_encode(arguments)).hexdigest()


def _write(root: Path, arguments: JSON, run: Run) -> JSON:
    parts, data = paths.split(arguments["path"]), _encode(arguments)
    path = "/".join(parts)
    bases = run.bases or frozenset({None, _wanted(arguments)})
    replace.require(_version(root, arguments), bases, path)
    with _folder_of(root, parts, "nothing was written", make=0o777) as (here, _):
        replace.replace(here, parts, data, bases, run.execution_id)
    return {"path": path, "bytes_written": len(data)}


@contextmanager
def _folder_of(
    root: Path, parts: paths.Parts, consequence: str, *, make: int | None = None
) -> Iterator[tuple[int, paths.Parts]]:
    """The folder of a file; what the system refuses becomes a failure in plain words."""
    with (
        paths.plainly("/".join(parts), consequence),
        paths.folder(root, parts[:-1], make=make) as found,
    ):
        yield found
