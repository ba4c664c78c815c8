#!/usr/bin/env python3
"""What `espalier reference` writes, against what every command says of itself with --help, and
completion in the shells themselves.

usage: reference_test.py ESPALIER SOURCE_FOLDER

What needs a program that is missing here (mandoc, zsh, fish) is skipped, and says so.
"""
import functools
import http.server
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

ESPALIER, SOURCE = (pathlib.Path(one).resolve() for one in (sys.argv.pop(1), sys.argv.pop(1)))
HANG_SECONDS = 60  # after which a test gives up; nothing is measured
HOSTILE = ["$(touch hacked)", "`touch hacked`", "; touch hacked", "a b", "-rf", "a\nb", "x\tb",
           "\x1b[31m", "~", "*", ":file", "'", '"', "\\"]


def run(*words, **more):
    return subprocess.run([ESPALIER, *words], check=True, capture_output=True, text=True,
                          timeout=HANG_SECONDS, **more).stdout


GROUPS = ("Commands that look", "Commands that act", "Commands that plan and measure", "Commands for keys and the store",
          "Commands for labs", "Commands for documents")  # in `espalier --help`


@functools.cache
def commands():
    """Every command (its words) with the names of its commands and its flags, from the helps."""
    found = {}
    waiting = [()]
    while waiting:
        words = waiting.pop()
        section, below, flags = "", [], []
        for line in run(*words, "--help").splitlines():
            heading = re.match(r"([A-Z][A-Za-z ]*):", line)
            name = re.match(r"  (\S+)", line)
            if heading:
                section = heading.group(1)
            elif name and section in ("Subcommands", *GROUPS):
                below.append(name.group(1))
            elif name and section in ("Options", "Controller"):
                flags += [flag for flag in name.group(1).split(",") if flag.startswith("-")]
        found[words] = below, [flag for flag in flags if flag not in ("-h", "--help")]
        waiting += [(*words, name) for name in below]
    return found


class Documents(unittest.TestCase):
    def test_the_helps_were_understood(self):
        self.assertGreater(len(commands()), 50)
        self.assertIn("--dry-run", commands()["job", "start"][1])

    def test_every_command_has_a_group(self):
        self.assertNotIn("Subcommands:", run("--help"))
        self.assertEqual([line[:-1] for line in run("--help").splitlines() if line[:-1] in GROUPS], list(GROUPS))

    def test_usage_begins_with_the_name_of_the_program(self):
        for words in commands():
            usage = next(line for line in run(*words, "--help").splitlines() if line.startswith("Usage:"))
            self.assertTrue(usage.startswith(" ".join(("Usage: espalier", *words))), usage)

    def test_docs_cli_is_what_the_tool_writes(self):
        if os.cpu_count() == 1:
            self.skipTest("the default of --threads is another where there is one processor")
        self.assertEqual((SOURCE / "docs/cli.md").read_text(), run("reference", "markdown"),
                         "docs/cli.md is not up to date; `espalier reference markdown --output "
                         "docs/cli.md` refreshes it")

    def test_markdown_has_every_command_and_flag(self):
        sections = {}
        for section in run("reference", "markdown").split("\n## ")[1:]:
            heading, _, text = section.partition("\n")
            sections[heading] = text
        self.assertEqual(sorted(sections), sorted(" ".join(("espalier", *words))
                                                  for words in commands()))
        for words, (_, flags) in commands().items():
            for flag in flags:
                self.assertIn(f"`{flag}`", sections[" ".join(("espalier", *words))])


    def test_the_table_of_kinds_names_arguments_that_there_are(self):
        table = (SOURCE / "deploy/cli/reference/argument_kind.cc").read_text()
        entries = re.findall(r'\{"([^"]*)", "([^"]*)", ArgumentKind::', table)
        self.assertGreater(len(entries), 30)
        text = run("reference", "markdown")
        for command, argument in entries:
            with self.subTest(f"{command} {argument}"):
                begin = text.index(f"\n## espalier {command}\n") if command else 0
                end = text.find("\n## ", begin + 1) if command else len(text)
                self.assertIn(f"`{argument}`", text[begin:end])


class ManPages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        run("reference", "man", "--output", cls.folder.name,
            env={**os.environ, "SOURCE_DATE_EPOCH": "1795305600"})
        cls.pages = {page.name: page for page in pathlib.Path(cls.folder.name).iterdir()}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_they_have_every_command_and_flag(self):
        names = {"-".join(("espalier", *words)) + ".1": words for words in commands()}
        self.assertEqual(sorted(self.pages), sorted(names))
        for name, words in names.items():
            text = self.pages[name].read_text()
            self.assertTrue(text.startswith(".Dd November 22, 2026\n"), text[:40])
            below, flags = commands()[words]
            for flag in flags:
                self.assertRegex(text, rf"(?m)^\.It (.*, )?Fl {re.escape(flag[1:])}( |$)")
            for one in below:
                self.assertIn(f".It Xr {name[:-2]}-{one} 1\n", text)

    def test_man_finds_nothing_wrong(self):
        if shutil.which("man") is None:
            self.skipTest("man is missing (apt-get install man-db)")
        done = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-Tutf8", "-Z", "-l",
                               *self.pages.values()],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                              env={**os.environ, "MANROFFSEQ": "", "LC_ALL": "C.UTF-8"})
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_mandoc_finds_nothing_wrong(self):
        if shutil.which("mandoc") is None:
            self.skipTest("mandoc is missing (apt-get install mandoc)")
        done = subprocess.run(["mandoc", "-Tlint", "-Wwarning", *self.pages.values()],
                              capture_output=True, text=True)
        self.assertEqual(done.stdout + done.stderr, "")


class Controller(http.server.BaseHTTPRequestHandler):
    """Answers every list with good and with hostile names."""

    def do_GET(self):
        names = ["leaf0--spine0", "leaf0--spine1", "h0:5", "h0:6", *HOSTILE]
        keys = {"links": "id", "nodes": "id", "flows": "flow", "jobs": "job", "forests": "job",
                "policies": "policy", "agents": "name"}
        body = json.dumps({name: [{key: one} for one in names] for name, key in keys.items()})
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


class Completion:
    """Tests of one shell; what it makes of the line `espalier WORD...`, the last word being typed,
    says `offers`."""

    def setUp(self):
        if shutil.which(self.shell) is None:
            self.skipTest(f"{self.shell} is missing (apt-get install {self.shell})")
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.script = pathlib.Path(self.folder.name, "script")
        run("reference", self.shell, "--output", str(self.script))
        self.controller = "unix:/nonexistent/controller.sock"

    def shell_output(self, *arguments):
        environment = {**os.environ, "PATH": f"{ESPALIER.parent}:{os.environ['PATH']}",
                       "HOME": self.folder.name, "ESPALIER_CONTROLLER": self.controller}
        done = subprocess.run([self.shell, *arguments], capture_output=True, text=True,
                              cwd=self.folder.name, env=environment, timeout=HANG_SECONDS)
        self.assertEqual(done.stderr, "")
        return done.stdout.splitlines()

    def serve(self, handler):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.controller = f"127.0.0.1:{server.server_port}"

    def test_offers_every_command_and_flag(self):
        for words, (below, flags) in commands().items():
            with self.subTest(" ".join(words)):
                offered = self.offers(*words, "") if below else []
                self.assertLessEqual(set(below), set(offered))
                self.assertLessEqual({*flags, "--help"}, set(self.offers(*words, "-")))

    def test_offers_values_and_files(self):
        self.assertEqual(self.offers("topology", "make", "fa"), ["fat-tree"])
        self.assertEqual(self.offers("job", "start", "--transport", ""), ["tcp", "verbs"])
        pathlib.Path(self.folder.name, "fabric.json").touch()
        self.assertEqual(self.offers("topology", "check", "fab"), self.file_offer)

    def test_offers_names_but_none_that_a_shell_might_run(self):
        self.serve(Controller)
        self.assertEqual(self.offers("fail", "link", "leaf"), ["leaf0--spine0", "leaf0--spine1"])
        self.assertCountEqual(self.offers("job", "stop", ""),  # fish sorts
                              ["leaf0--spine0", "leaf0--spine1", "h0:5", "h0:6"])
        self.assertEqual(self.offers("job", "start", "--ranks", "a,leaf0--spine0"),
                         ["a,leaf0--spine0"])
        self.assertFalse(pathlib.Path(self.folder.name, "hacked").exists())

    def test_offers_nothing_and_says_nothing_without_a_controller(self):
        self.assertEqual(self.offers("fail", "link", ""), [])
        with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections, never answers
            self.controller = f"127.0.0.1:{silent.getsockname()[1]}"
            self.assertEqual(self.offers("fail", "link", ""), [])


class Bash(Completion, unittest.TestCase):
    shell = "bash"
    file_offer = ["compopt -o default"]

    def offers(self, *words):
        return self.shell_output("--norc", "-c", """
            compopt() { echo "compopt $*"; }  # there is none outside of completion
            source "$1"; shift
            COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
            _espalier
            ((${#COMPREPLY[@]} == 0)) || printf '%s\\n' "${COMPREPLY[@]}"
            """, "bash", self.script, "espalier", *words)

    def test_words_that_bash_cuts_are_put_together(self):
        self.serve(Controller)
        self.assertEqual(self.offers("explain", "h0", ":"), ["5", "6"])
        self.assertEqual(self.offers("explain", "h0", ":", "6"), ["6"])
        self.assertEqual(self.offers("job", "start", "--transport", "=", "v"), ["verbs"])


class Zsh(Completion, unittest.TestCase):
    shell = "zsh"
    file_offer = ["_files"]

    def offers(self, *words):
        return self.shell_output("-f", "-c", """
            compdef() { }
            compset() { }
            _files() { print -r -- _files "$@" }
            compadd() { print -rl -- "${names[@]}" }
            source "$1"; shift
            words=("$@"); CURRENT=$#
            _espalier
            true
            """, "zsh", self.script, "espalier", *words)


class Fish(Completion, unittest.TestCase):
    shell = "fish"
    file_offer = ["fabric.json"]

    def offers(self, *words):
        lines = self.shell_output("--no-config", "-c",
                                  "source $argv[1]; complete -C (string join -- ' ' $argv[2..-1])",
                                  self.script, "espalier", *words)
        return [line.split("\t")[0] for line in lines]


if __name__ == "__main__":
    unittest.main(verbosity=2)
