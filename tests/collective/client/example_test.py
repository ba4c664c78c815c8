#!/usr/bin/env python3
"""Builds and runs the programs that docs/libraries.md prints, as it says, against the libraries of a build folder.

usage: example_test.py SOURCE_FOLDER LIBRARY_FOLDER
"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SOURCES = pathlib.Path(sys.argv[1])
LIBRARIES = pathlib.Path(sys.argv[2])
DOCUMENT = (SOURCES / "docs/libraries.md").read_text()
PROGRAMS = {"allreduce": "espalier-collective", "announce": "espalier-agent"}
# The sanitizers' libraries have symbols that only programs of that build provide.
IS_SANITIZED = b"__asan_init" in (LIBRARIES / "libespalier-collective.so").read_bytes() or \
    b"__tsan_init" in (LIBRARIES / "libespalier-collective.so").read_bytes()
SUMS = [f"rank {rank} of 2: 2 1 1" for rank in range(2)]


def printed_blocks(language):
    """The blocks of code of that language in the document."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", DOCUMENT, re.MULTILINE | re.DOTALL)
    return [text for marked, text in found if marked == language]


def printed_programs():
    return printed_blocks("c")


@unittest.skipIf(IS_SANITIZED, "libraries with sanitizers")
class Examples(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.environment = dict(os.environ, PKG_CONFIG_PATH=str(LIBRARIES / "pkgconfig"))
        for name in ("ESPALIER_JOB_KEY", "ESPALIER_JOB_KEY_FILE", "ESPALIER_INSECURE_GROUPS", "ESPALIER_AGENT_SOCKET"):
            self.environment.pop(name, None)

    def shell(self, command):
        return subprocess.run(["sh", "-c", command], cwd=self.folder, env=self.environment, text=True, timeout=120,
                              capture_output=True)

    def build(self, name):
        """Compiles the printed program by the printed command."""
        text = next(text for text in printed_programs() if f"{name} " in text.splitlines()[0])
        (self.folder / f"{name}.c").write_text(text)
        command = next(line for line in DOCUMENT.splitlines() if line.startswith(f"cc -o {name} "))
        built = self.shell(command.replace("cc ", "cc -Wall -Wextra -Werror ", 1))
        self.assertEqual((built.returncode, built.stderr), (0, ""))

    def start(self, *arguments):
        process = subprocess.Popen(["./allreduce", *arguments], cwd=self.folder, env=self.environment, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def run_pair(self, store, *address):
        pair = [self.start(store, str(rank), "2", *address) for rank in range(2)]
        ends = [process.communicate(timeout=120) for process in pair]
        self.assertEqual([end[1] for end in ends], ["", ""])
        self.assertEqual([end[0].strip() for end in ends], SUMS)

    def test_documents_show_the_files(self):
        files = [(SOURCES / f"docs/examples/{name}.c").read_text() for name in PROGRAMS]
        self.assertEqual(printed_programs(), files)

    def test_runs_as_printed_and_again_in_the_same_folder(self):
        self.build("allreduce")
        block = next(block for block in printed_blocks("") if "./allreduce run17" in block)
        for _ in range(2):
            ran = self.shell(block + "wait\n")
            self.assertEqual((ran.returncode, ran.stderr), (0, ""))
            self.assertEqual(sorted(ran.stdout.splitlines()), SUMS)

    def test_runs_over_tcp_with_a_key(self):
        self.build("allreduce")
        self.run_pair(".", "127.0.0.1")
        self.run_pair(".", "127.0.0.1")

    def test_runs_again_after_a_run_that_was_killed(self):
        self.build("allreduce")
        (self.folder / "store").mkdir()
        alone = self.start("store", "0", "2")
        file = self.folder / "store/world.meeting.0"
        while not file.exists():
            time.sleep(0.01)
        alone.send_signal(signal.SIGKILL)
        alone.wait()
        self.run_pair("store")

    def test_an_unknown_folder_is_refused_at_once(self):
        self.build("allreduce")
        refused = self.shell("./allreduce nowhere 0 2")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("rank 0 cannot join: nowhere: there is no such folder", refused.stderr)
        self.assertFalse((self.folder / "nowhere").exists())

    def test_each_error_has_only_its_own_text(self):
        self.build("allreduce")
        (self.folder / "store").mkdir()
        (self.folder / "store/world.failed").write_text("rank 0: an earlier failure")
        refused = self.shell("./allreduce store 5 2")
        self.assertEqual(refused.stderr,
                         "rank 5 cannot join: rank 5 of 2: ranks count from 0 to one below the size\n")

    def test_a_flow_needs_an_agent(self):
        self.build("announce")
        self.environment["ESPALIER_AGENT_SOCKET"] = str(self.folder / "agent.sock")
        refused = self.shell("./announce 10.0.0.1 10.1.0.1")
        self.assertEqual((refused.returncode, refused.stderr), (1, "no agent: No such file or directory\n"))
        self.assertEqual(self.shell("./announce here there").returncode, 2)

    def test_cmake_finds_the_libraries(self):
        (self.folder / "main.c").write_text(printed_programs()[0])
        snippet = printed_blocks("cmake")[0]
        (self.folder / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(train C)\nadd_executable(train main.c)\n" + snippet)
        made = self.shell(f"cmake -B made -S . -Despalier_DIR={LIBRARIES}/cmake/espalier && cmake --build made")
        self.assertEqual(made.returncode, 0, made.stdout + made.stderr)
        self.assertEqual(self.shell("made/train").returncode, 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
