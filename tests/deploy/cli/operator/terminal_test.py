#!/usr/bin/env python3
"""The operator's commands on a terminal: pager, colours, --watch, --follow, confirmation, narrow terminals, pipes.

usage: terminal_test.py ESPALIER

A server with canned answers stands in for the controller, and a pseudo-terminal for the operator's.
"""
import fcntl
import http.server
import json
import os
import pathlib
import pty
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import unittest
import urllib.parse

PROGRAM = sys.argv[1]
PATIENCE = 60  # seconds, for what must happen
LINKS = [{"id": f"leaf{i}--spine0", "a": f"leaf{i}", "b": "spine0", "gbps": "100",
          "state": "DOWN" if i == 0 else "UP", "flows_a_to_b": i, "flows_b_to_a": 0, "bps_a_to_b": 0, "bps_b_to_a": 0,
          "reason": "optics are dirty, new ones are ordered" if i == 0 else ""} for i in range(60)]
MOVE = {"flow": "h0:5", "job": "A", "from": "spine0", "to": ""}


class Controller(http.server.BaseHTTPRequestHandler):
    """Answers with 60 links and a growing list of events; failing a node would cut off a flow."""
    done = []
    events = 0
    step = 1  # events that happen between two requests
    kept = 1 << 30  # so many events are not forgotten yet
    is_dead = False  # closes connections without an answer

    def log_message(self, *_):
        pass

    def answer(self, body):
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        if Controller.is_dead:
            self.close_connection = True
            return None
        url = urllib.parse.urlparse(self.path)
        query = urllib.parse.parse_qs(url.query)
        if url.path.endswith("/links"):
            return self.answer({"links": LINKS})
        if url.path.endswith(("/status", "/jobs")):
            return self.answer({"jobs": [], "topology": "t", "health": "ok", "health_reasons": [], "flows": 0,
                                "max_load": "0", "lower_bound": "0"})
        since = int(query.get("since", ["0"])[0])
        Controller.events += Controller.step
        since = max(since, Controller.events - Controller.kept)
        entries = [{"sequence": number, "time": "2026-11-26T12:00:00Z", "kind": "link_lossy", "text": f"number={number}"}
                   for number in range(since + 1, Controller.events + 1)]
        return self.answer({"events": entries, "last_sequence": Controller.events})

    def do_POST(self):
        query = urllib.parse.parse_qs(urllib.parse.urlparse(self.path).query)
        is_dry_run = query["dry_run"] == ["true"]
        if not is_dry_run:
            Controller.done.append(self.path)
        self.answer({"dry_run": is_dry_run, "version": 1, "moved": 1, "moved_bytes": 0, "moves": [MOVE], "forests": 0,
                     "max_load": "1", "max_load_before": "1", "lower_bound": "1", "optimal": False,
                     "without_path": 1, "without_path_before": 0})


class OnTerminal:
    """A command on a pseudo-terminal of that size."""

    def __init__(self, address, words, columns=120, rows=30, **environment):
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            size = struct.pack("HHHH", rows, columns, 0, 0)
            fcntl.ioctl(0, termios.TIOCSWINSZ, size)
            kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "PAGER", "LESS")}
            os.execve(PROGRAM, ["espalier", *words, "--controller", address], {**kept, **environment, "TERM": "xterm"})
        self.seen = ""
        self.code = None

    def read(self):
        """Reads what has come; returns whether there may be more."""
        ready, _, _ = select.select([self.terminal], [], [], 0.1)
        if not ready:
            return True
        try:
            data = os.read(self.terminal, 65536)
        except OSError:
            return False
        self.seen += data.decode(errors="replace")
        return bool(data)

    def wait_for(self, text, times=1):
        end = time.monotonic() + PATIENCE
        while self.seen.count(text) < times:
            if not self.read() or time.monotonic() > end:
                raise AssertionError(f"never {times} times {text!r} in {self.seen!r}")

    def type(self, text):
        os.write(self.terminal, text.encode())

    def finish(self):
        end = time.monotonic() + PATIENCE
        while self.read() and time.monotonic() < end:
            pass
        _, status = os.waitpid(self.pid, 0)
        os.close(self.terminal)
        self.code = os.waitstatus_to_exitcode(status)
        return self.seen


class Terminal(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Controller)
        threading.Thread(target=cls.server.serve_forever, daemon=True).start()
        cls.address = f"http://127.0.0.1:{cls.server.server_address[1]}"

    @classmethod
    def tearDownClass(cls):
        cls.server.shutdown()
        cls.server.server_close()

    def setUp(self):
        Controller.done.clear()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.paged = pathlib.Path(folder.name, "paged")
        self.pager = f"tee {self.paged} >/dev/null"

    def open(self, *words, **options):
        return OnTerminal(self.address, words, **options)

    def piped(self, command):
        return subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=PATIENCE,
                              stdin=subprocess.DEVNULL,
                              env={**os.environ, "ESPALIER_CONTROLLER": self.address, "E": PROGRAM})

    def test_long_lists_go_through_the_pager(self):
        shown = self.open("links", PAGER=self.pager)
        self.assertEqual(shown.finish(), "")
        self.assertEqual(len(self.paged.read_text().splitlines()), 61)
        self.assertEqual(shown.code, 0)

    def test_short_lists_do_not(self):
        shown = self.open("links", "--limit", "5", PAGER=self.pager)
        self.assertEqual(len(shown.finish().splitlines()), 6)
        self.assertFalse(self.paged.exists())

    def test_a_narrow_terminal_counts_wrapped_lines(self):
        wide = self.open("links", "--limit", "9", columns=200, rows=12, PAGER=self.pager)
        wide.finish()
        self.assertFalse(self.paged.exists())
        narrow = self.open("links", "--limit", "9", columns=40, rows=12, PAGER=self.pager)
        self.assertEqual(narrow.finish(), "")
        self.assertEqual(len(self.paged.read_text().splitlines()), 10)

    def test_states_have_colours_only_on_a_terminal(self):
        red = "\x1b[31mDOWN\x1b[0m"
        self.assertIn(red, self.open("links", "--limit", "3").finish())
        self.assertNotIn("\x1b", self.open("links", "--limit", "3", NO_COLOR="1").finish())
        self.assertNotIn("\x1b", self.piped('"$E" links').stdout)

    def test_watch_shows_the_list_again_until_ctrl_c(self):
        shown = self.open("links", "--limit", "2", "--watch", "0.1")
        shown.wait_for("\x1b[H\x1b[2J", times=3)
        shown.type("\x03")
        shown.finish()
        self.assertEqual(shown.code, 0)

    def test_follow_prints_each_entry_once_until_ctrl_c(self):
        shown = self.open("events", "--follow")
        shown.wait_for("number=", times=3)
        shown.type("\x03")
        lines = [line for line in shown.finish().splitlines() if "number=" in line]
        self.assertEqual(shown.code, 0)
        self.assertEqual(len(lines), len(set(lines)))

    def test_actions_that_cut_flows_off_are_confirmed(self):
        for typed in ("\n", "n\n", "\x04"):
            asked = self.open("fail", "node", "spine0")
            asked.wait_for("[y/N]")
            self.assertEqual(Controller.done, [])
            asked.type(typed)
            self.assertIn("nothing was changed", asked.finish())
            self.assertEqual(asked.code, 1)
            self.assertEqual(Controller.done, [])
        asked = self.open("fail", "node", "spine0")
        asked.wait_for("[y/N]")
        asked.type("y\n")
        asked.finish()
        self.assertEqual(asked.code, 0)
        self.assertEqual(len(Controller.done), 1)

    def test_nobody_is_asked_without_a_terminal(self):
        refused = self.piped('"$E" fail node spine0')
        self.assertEqual(refused.returncode, 1)
        self.assertIn("--force", refused.stderr)
        self.assertEqual(Controller.done, [])

    def test_a_pipe_that_closes_ends_the_command_silently(self):
        ended = self.piped('"$E" links | head -n 1')
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))
        self.assertEqual(len(ended.stdout.splitlines()), 1)
        followed = self.piped('"$E" events --follow --limit 5 | head -n 2')
        self.assertEqual((followed.returncode, followed.stderr), (0, ""))

    def follow(self, step, kept, times):
        """What `events --follow` prints while so many events happen between two requests."""
        Controller.step, Controller.kept, before = step, kept, Controller.events
        try:
            with tempfile.TemporaryFile("w+") as out, subprocess.Popen(
                    [PROGRAM, "events", "--follow", "--json", "--controller", self.address],
                    stdout=out, stderr=subprocess.PIPE, text=True) as follower:
                end = time.monotonic() + PATIENCE
                while Controller.events < before + times * step and time.monotonic() < end:
                    time.sleep(0.05)
                follower.send_signal(signal.SIGINT)
                _, err = follower.communicate(timeout=PATIENCE)
                out.seek(0)
                lines = out.read().splitlines()
        finally:
            Controller.step, Controller.kept = 1, 1 << 30
        return [json.loads(line)["sequence"] for line in lines], err

    def test_two_thousand_events_between_two_requests_are_all_followed(self):
        # Every 0.2 seconds: ten thousand a second.
        seen, err = self.follow(step=2000, kept=1 << 30, times=5)
        self.assertEqual(seen, list(range(seen[0], seen[0] + len(seen))))
        self.assertGreaterEqual(len(seen), 2 * 2000)
        self.assertEqual(err, "")

    def test_events_that_were_forgotten_before_they_were_read_are_counted(self):
        seen, err = self.follow(step=2000, kept=500, times=5)
        self.assertIn("1500 entries came and went too fast to be read", err)
        self.assertGreaterEqual(len(seen), 500)

    def test_a_follower_ends_when_nobody_reads_it(self):
        Controller.step = 0  # nothing happens that it could print
        try:
            done = self.piped("\"$E\" events --follow | true; echo ended")
        finally:
            Controller.step = 1
        self.assertEqual(done.stdout, "ended\n")

    def test_output_that_cannot_be_written_is_a_failure(self):
        done = self.piped("\"$E\" links > /dev/full")
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot write to standard output", done.stderr)

    def test_watched_lists_do_not_wrap(self):
        shown = self.open("links", "--watch", "0.1", columns=40)
        shown.wait_for("\x1b[?7l")
        shown.wait_for("\x1b[?7h")
        shown.type("\x03")
        shown.finish()

    def test_a_watched_list_in_a_file_has_no_escape_sequences(self):
        watching = subprocess.Popen([PROGRAM, "links", "--watch", "0.1", "--controller", self.address],
                                    stdout=subprocess.PIPE, text=True)
        self.addCleanup(watching.stdout.close)
        seen = [watching.stdout.readline() for _ in range(130)]  # two pictures of 60 links
        watching.send_signal(signal.SIGINT)
        watching.communicate(timeout=PATIENCE)
        self.assertGreaterEqual(sum("LINK" in line for line in seen), 2)
        self.assertEqual([line for line in seen if "\x1b" in line], [])

    def test_commands_that_go_on_survive_the_death_of_the_controller(self):
        for words, sign in ((("events", "--follow"), "number="), (("links", "--watch", "0.1"), "leaf59--spine0"),
                            (("top", "--interval", "0.1"), "USED %")):
            with self.subTest(words):
                Controller.is_dead = False
                self.addCleanup(setattr, Controller, "is_dead", False)
                shown = self.open(*words, rows=80, columns=200)
                shown.wait_for(sign, times=2)
                Controller.is_dead = True
                shown.wait_for("espalier: ")
                Controller.is_dead = False
                Controller.events = 0  # a controller that starts again counts from 1 on
                shown.wait_for("the controller answers again")
                before = shown.seen.count(sign)
                shown.wait_for(sign, times=before + 2)
                shown.type("\x03")
                shown.finish()
                self.assertEqual(shown.seen.count("answers again"), 1)

    def test_commands_that_go_on_end_where_the_first_question_fails(self):
        Controller.is_dead = True
        self.addCleanup(setattr, Controller, "is_dead", False)
        for words in ("events --follow", "links --watch 0.1", "top"):
            self.assertEqual(self.piped(f'"$E" {words}').returncode, 1, words)

    def test_filters_that_match_nothing(self):
        empty = self.piped('"$E" links --link "nowhere*"')
        self.assertEqual(empty.returncode, 0)
        self.assertIn("--link nowhere* matches nothing (there are: leaf0--spine0, leaf1--spine0", empty.stderr)
        self.assertEqual(len(empty.stdout.splitlines()), 1, "the titles")
        self.assertEqual(json.loads(self.piped('"$E" links --link nowhere --json').stdout)["links"], [])
        unknown = self.piped('"$E" links --sort beauty')
        self.assertEqual(unknown.returncode, 2)
        self.assertIn("the columns are LINK", unknown.stderr)


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    unittest.main(argv=sys.argv[:1])
