"""Seeded faults of the session file, its lock, its checksums and the replacement of files."""

from mutant import Mutant

DISK = (
    # --- fsync --------------------------------------------------------------------------------
    Mutant(
        "append without fsync",
        "a record is on the disk before anything is done about it",
        "session.py",
        "            self._fsync(self._fd)\n        except OSError as cause:",
        "        except OSError as cause:",
        "session::test_one_fsync_for_each_record",
    ),
    Mutant(
        "open without fsync",
        "what recovery acts on was made durable first",
        "session.py",
        "        self._fsync(self._fd)\n        sync_names(",
        "        sync_names(",
        "session::test_what_opening_found_is_made_durable",
    ),
    Mutant(
        "open without fsync of the folder",
        "the name of a session is on the disk before an effect may start",
        "session.py",
        "        sync_names(self.path, self._fsync)\n",
        "",
        "session::test_what_opening_found_is_made_durable",
    ),
    Mutant(
        "open without fsync of the workspace",
        "the name of the state folder is on the disk, whoever made it",
        "storage.py",
        "    if path.parent.name == STATE:\n        sync_folder(path.parent.parent, fsync)\n",
        "",
        "power_loss::test_a_power_loss_at_every_call",
    ),
    Mutant(
        "new state folder without fsync",
        "the name of each new folder is on the disk",
        "storage.py",
        "        sync_folder(missing.parent, fsync)\n",
        "",
        "session::test_the_folder_entries_are_made_durable",
    ),
    Mutant(
        "new content without fsync",
        "the bytes of a file are on the disk before it takes the place of the old one",
        "replace.py",
        "        os.fsync(descriptor)\n",
        "",
        "workspace::test_what_makes_a_write_durable_comes_in_order",
    ),
    Mutant(
        "replacement without fsync of the folder",
        "a write that was told as done is still there after a power failure",
        "replace.py",
        "        os.fsync(here)\n",
        "        pass\n",
        "workspace::test_what_makes_a_write_durable_comes_in_order",
    ),
    Mutant(
        "replacement before its content",
        "a reader finds the old content or the new, whole",
        "replace.py",
        "        _fill(descriptor, data, mode)\n        require(version(here, name), bases, path)\n"
        "        os.replace(hidden, name, src_dir_fd=here, dst_dir_fd=here)\n",
        "        require(version(here, name), bases, path)\n"
        "        os.replace(hidden, name, src_dir_fd=here, dst_dir_fd=here)\n"
        "        _fill(descriptor, data, mode)\n",
        "workspace::test_what_makes_a_write_durable_comes_in_order",
    ),
    Mutant(
        "new folder without fsync",
        "the folders of a written file are on the disk",
        "paths.py",
        "    os.fsync(here)\n    return _open_folder(here, name)",
        "    return _open_folder(here, name)",
        "workspace::test_what_makes_a_write_durable_comes_in_order",
    ),
    # --- what a failure leaves ----------------------------------------------------------------
    Mutant(
        "failed fsync swallowed",
        "after a failed fsync nothing is claimed",
        "session.py",
        "            self._fsync(self._fd)\n        except OSError as cause:",
        "            with suppress(OSError):\n                self._fsync(self._fd)\n"
        "        except OSError as cause:",
        "session_bad_input::test_nothing_is_appended_after_a_failure",
    ),
    Mutant(
        "failed fsync tried again",
        "a second fsync may report success for bytes that were dropped",
        "session.py",
        "            self._fsync(self._fd)\n        except OSError as cause:",
        "            try:\n                self._fsync(self._fd)\n            except OSError:\n"
        "                self._fsync(self._fd)\n        except OSError as cause:",
        "session_bad_input::test_nothing_is_appended_after_a_failure disk_errors",
    ),
    Mutant(
        "appending after a failure",
        "after a failed append this process appends nothing more",
        "session.py",
        'self._refuses = "an earlier append did not finish"',
        "self._refuses = None",
        "session_bad_input::test_nothing_is_appended_after_a_failure",
    ),
    Mutant(
        "short append",
        "what the disk took only in part is completed",
        "session.py",
        "            while rest:",
        "            if rest:",
        "session_bad_input::test_short_writes_are_completed",
    ),
    Mutant(
        "short content",
        "a file is replaced by all of the new content",
        "replace.py",
        "        while rest:",
        "        if rest:",
        "full_disk workspace::test_an_error_at_any_step_leaves_old_or_new_whole",
    ),
    Mutant(
        "memory before disk",
        "what memory holds, the disk holds",
        "session.py",
        "        try:\n            rest = memoryview(mend + line)",
        "        self._remember(mend, line)\n        mend, line, todo = b'', b'', mend + line\n"
        "        try:\n            rest = memoryview(todo)",
        "session_bad_input::test_nothing_is_appended_after_a_failure",
    ),
    Mutant(
        "stop between file and memory forgotten",
        "memory that may be behind the file writes nothing more",
        "journal.py",
        '            self.session.distrust("a stop fell between the file and what is known of it")\n',
        "",
        "crash::test_a_stop_at_every_point",
    ),
    # --- tails --------------------------------------------------------------------------------
    Mutant(
        "torn tail cut off",
        "no byte of a session is ever removed",
        "session.py",
        '        self._write(SEAL + b"\\n", self._line(record))',
        "        os.ftruncate(self._fd or 0, torn.offset)\n"
        "        self.recent.end = torn.offset\n        self.recent.damage.pop()",
        "session::test_a_torn_tail_is_reported_sealed_and_explained",
    ),
    Mutant(
        "torn tail left as it is",
        "the next record never stands on a torn line",
        "session.py",
        "        if tail:\n            self._mend(tail)",
        "        if tail:\n            self.recent.feed_tail(tail)",
        "session::test_a_torn_tail_is_reported_sealed_and_explained",
    ),
    Mutant(
        "torn tail not explained",
        "a sealed tail is explained by a record",
        "session.py",
        '        self._write(SEAL + b"\\n", self._line(record))',
        '        self._write(SEAL + b"\\n", b"")',
        "session::test_a_torn_tail_is_reported_sealed_and_explained",
    ),
    Mutant(
        "lines end at U+2028",
        "a line ends at byte 0x0A and nowhere else",
        "logfile.py",
        "            for raw in file:  # a binary file splits at 0x0A alone\n",
        '            text = file.read().decode("utf-8", "surrogateescape")\n'
        "            for line in text.splitlines(keepends=True):\n"
        '                raw = line.encode("utf-8", "surrogateescape")\n',
        "lines::test_k2_05_separators_inside_texts_end_no_line",
    ),
    # --- one writer ---------------------------------------------------------------------------
    Mutant(
        "no lock",
        "one process at a time reads for recovery, appends and acts",
        "storage.py",
        "    if not filelock.lock_descriptor(descriptor, blocking=False):",
        "    if False:",
        "session::test_another_process_is_refused_and_a_dead_one_is_not",
    ),
    Mutant(
        "no lock on the file itself",
        "another name of the file is locked too",
        "session.py",
        '        claim(self._fd, self.path, "")',
        "        ",
        "one_writer::test_another_name_of_the_file_is_locked_too",
    ),
    Mutant(
        "lock after the reading",
        "what was read cannot grow before the lock is there",
        "session.py",
        "        make_folder(self.path.parent, self._fsync)\n        require_own(self.path.parent)\n",
        "        make_folder(self.path.parent, self._fsync)\n        require_own(self.path.parent)\n"
        "        self.path.touch()\n        self._load(everything=False)\n"
        "        self._load = lambda everything: None  # type: ignore[method-assign]\n",
        "session::test_a_session_cut_at_every_byte_loses_only_the_cut_record",
    ),
    Mutant(
        "lock file removed",
        "whoever waits for a lock waits for the same file",
        "session.py",
        "        for fd in (self._fd, self._lock_fd):",
        "        if self._lock_fd is not None:\n"
        '            self.path.with_name(self.path.name + ".lock").unlink(missing_ok=True)\n'
        "        for fd in (self._fd, self._lock_fd):",
        "seeded::test_the_lock_file_stays",
    ),
    Mutant(
        "lock of the process",
        "a second opening in the same process is refused, and closing one frees no other",
        "storage.py",
        "    if not filelock.lock_descriptor(descriptor, blocking=False):",
        "    import fcntl\n\n    try:\n"
        "        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "        free = True\n    except OSError:\n        free = False\n    if not free:",
        "session::test_the_same_process_is_refused_too",
    ),
    Mutant(
        "writing in a forked child",
        "a child of the process has no right to the session",
        "session.py",
        "elif os.getpid() != self._process:",
        "elif False:",
        "one_writer::test_a_forked_child_cannot_write",
    ),
    Mutant(
        "file grown unseen",
        "what is written follows what this process has read",
        "session.py",
        "elif status.st_size != self.recent.end:",
        "elif False:",
        "one_writer::test_a_file_that_changed_hands_takes_no_records",
    ),
    Mutant(
        "file replaced unseen",
        "what is written can be found again",
        "session.py",
        "if status.st_nlink == 0:",
        "if False:",
        "one_writer::test_a_file_that_changed_hands_takes_no_records",
    ),
    Mutant(
        "two threads at once",
        "running in the log means interrupted: one thread at a time works on a session",
        "session.py",
        "if not self._busy.acquire(blocking=False):",
        "if not self._busy.acquire(blocking=False) and False:",
        "one_writer::test_a_tool_cannot_enter_the_loop_again",
    ),
    Mutant(
        "another agent's records unread",
        "who has not read a record goes on from nothing that it might have changed",
        "journal.py",
        '            if record["type"] != "repair":',
        "            if False:",
        "one_writer::test_a_second_agent_on_the_session_is_refused",
    ),
)
