"""What becomes of a result that is too large for the prompt.

The tools of a workspace bound what they return themselves. This is the backstop for all
others: the whole goes into a file that ``read_file`` can page, and the model gets the head
of it, what the small fields say, and where to read on.

Rules that live here and nowhere else:

1. Nothing is lost. Where one text makes up the result, that text is the artifact, so that
   its lines stay lines; but only if all other fields stay in the result. Otherwise the
   artifact is the whole result as indented JSON.
2. An artifact is named by its content: writing it again changes nothing, and a write that
   was cut short is completed by the next one.
3. The effect has happened. An artifact that cannot be written is a sentence in the result
   and never an error.
4. A result in the form of ``read_file`` goes on by itself, so its text alone has to fit in
   50 KiB. Another artifact for it would be read with ``read_file`` again, without end.

It does not know which tool made a result, or whether it is a success.
"""

import hashlib
import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from math import inf
from pathlib import Path

from lai import paths
from lai.bounds import RESULT_BYTES, Room, as_json, fits, head
from lai.records import JSON
from lai.tools import ToolError

OURS = {"bytes", "artifact_path", "note", "preview"}  # and `truncated`, whose old value is known
SMALL, MOST = 1024, 50  # characters of a field that is kept beside the preview, and how many
NAME = 64  # characters: a field with a longer name is part of the whole
BESIDE_A_PAGE = 8 * 1024  # bytes for the other fields of `read_file`: a path has up to 4 KiB


def bounded(result: JSON, folder: Path, tokens: int | None = None) -> JSON:
    """``result`` if its JSON text has at most 50 KiB and ``tokens``, else a short form of it.

    The short form has the small fields of the result, ``truncated`` (true), ``bytes`` (of the
    artifact), ``artifact_path`` (from the workspace; None if it could not be written), ``note``
    and ``preview``: the start of the artifact. It is within the bound too, if that is at least
    about 100 tokens. ``folder`` is ``<workspace>/.agent_state/artifacts``; it is made if it is
    missing. ``result`` is a JSON object, as ``outcome.plain`` makes it.
    """
    bound = Room(tokens=inf if tokens is None else tokens)
    if fits(result, bound) or _pages(result, bound):
        return result
    text_field = _one_text(result, bound)
    if text_field is None:
        text = json.dumps(result, ensure_ascii=False, indent=1)
    else:
        text = result[text_field]
    data = text.encode("utf-8", "replace")
    ending = "json" if text_field is None else "txt"
    name = f"result-{hashlib.sha256(data).hexdigest()[:16]}.{ending}"
    kept = _small_fields(result, bound) if text_field is None else _without(result, text_field)
    folder = folder.absolute()
    problem = _keep(folder, name, data)
    facts = {
        "truncated": True,
        "bytes": len(data),
        "artifact_path": None if problem else f"{folder.parent.name}/{folder.name}/{name}",
    }
    note = partial(_note, text_field or "the result", problem)
    return _short(kept, facts, note, data.decode(), bound)


def _pages(result: JSON, bound: Room) -> bool:
    """Whether this is a page of ``read_file``, as large as a page may be."""
    content = result.get("content")
    if not isinstance(content, str) or not {"truncated", "next_offset"} <= result.keys():
        return False
    return (
        len(content.encode("utf-8", "replace")) <= RESULT_BYTES
        and fits(_without(result, "content"), Room(BESIDE_A_PAGE))
        and fits(result, replace(bound, size=inf))
    )


def _one_text(result: JSON, bound: Room) -> str | None:
    """The field whose text makes up the result: all others can stay. None if there is none."""
    texts = [name for name, value in result.items() if isinstance(value, str)]
    longest = max(texts, key=lambda name: len(result[name]), default=None)
    if longest is None or len(longest) > NAME:
        return None
    rest = _without(result, longest)
    return longest if OURS.isdisjoint(rest) and fits(rest, bound.part(1 / 4)) else None


def _without(result: JSON, name: str) -> JSON:
    return {other: value for other, value in result.items() if other != name}


def _small_fields(result: JSON, bound: Room) -> JSON:
    """The first fields with a plain, short value, as far as a quarter of the room goes."""
    kept: JSON = {}
    plain = ((k, v) for k, v in result.items() if not isinstance(v, dict | list))
    small = ((k, v) for k, v in plain if len(k) + len(str(v)) <= SMALL)
    for name, value in islice(small, MOST):
        if fits({**kept, name: value}, bound.part(1 / 4)):
            kept[name] = value
    return kept


def _note(what: str, problem: str, end: int) -> str:
    rest = (
        f"the rest could not be kept: {problem}"
        if problem
        else f"read_file goes on at offset {end}"
    )
    return f"{what} is cut after {end} bytes; {rest}"


def _short(kept: JSON, facts: JSON, note: Callable[[int], str], text: str, bound: Room) -> JSON:
    """All of it that there is room for: the facts at least, then the fields, then the text."""

    def made(preview: str) -> JSON:
        said = {"note": note(len(preview.encode())), "preview": preview}
        return {**kept, **facts, **said}

    preview = head(text, bound.less(as_json(made(""))))
    line_end = preview.rfind("\n") + 1
    if line_end > len(preview) // 2:  # else the next line is a long one
        preview = preview[:line_end]
    while preview and not fits(made(preview), bound):  # a seam took a token more
        preview = preview[: len(preview) * 7 // 8]
    for result in (made(preview), {**kept, **facts}):
        if fits(result, bound):
            return result
    return facts


def _keep(folder: Path, name: str, data: bytes) -> str:
    """Write the artifact. Returns why that was not possible, or nothing."""
    try:
        names = folder.parent.name, folder.name
        with paths.folder(folder.parent.parent, names, make=0o700) as (here, _):
            _write(here, name, data)
    except OSError as error:
        return error.strerror or type(error).__name__
    except ToolError as error:
        return str(error)[:200]
    return ""


def _write(here: int, name: str, data: bytes) -> None:
    """Write in place: over the same bytes, so that who reads meanwhile sees no difference."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
    descriptor = os.open(name, flags, 0o600, dir_fd=here)
    try:
        status = os.fstat(descriptor)
        paths.require_file(status, name)
        if status.st_nlink != 1:
            raise ToolError(f"{name!r} has another name outside: it is not written through")
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.ftruncate(descriptor, len(data))
    except OSError:
        with suppress(OSError):  # half of it is of no use and takes the room of the session
            if os.fstat(descriptor).st_size < len(data):
                os.unlink(name, dir_fd=here)
        raise
    finally:
        os.close(descriptor)
