#!/usr/bin/env python3
"""Tests of the checks of documents and words."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "docs/tools")]

import commands  # noqa: E402
import configuration_reference  # noqa: E402
import documents  # noqa: E402
import help_texts  # noqa: E402
import links  # noqa: E402
import prose  # noqa: E402
import retired_words  # noqa: E402
import vague_verbs  # noqa: E402


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        subprocess.run(["git", "init", "-q"], cwd=self.root, check=True)

    def write(self, name, text):
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text)


class SentencesTest(unittest.TestCase):
    def test_leaves_out_what_is_no_prose(self):
        text = ("# A heading. Not read\nOne sentence\nover two lines. Another, e.g. this one: `a. B`.\n\n"
                "| a | table. Of words |\n```\ncode. More code\n```\n<!-- a comment. Hidden -->\n"
                "- An item\n  that goes on\n- See [the other document](x.md). It has 3.5 lines.\n")
        self.assertEqual(list(documents.sentences(text)), [
            (2, "One sentence over two lines."), (2, "Another, e.g. this one: Code."), (10, "An item that goes on"),
            (12, "See the other document."), (12, "It has 3.5 lines.")])

    def test_counts_words_and_not_marks(self):
        self.assertEqual(documents.count_words("Two words - and 3 more."), 5)

    def test_percentile_is_exceeded_by_a_twentieth(self):
        self.assertEqual(prose.percentile_95(range(1, 101)), 95)
        self.assertEqual(prose.percentile_95([7]), 7)


class VagueVerbsTest(Folder):
    def test_names_verbs_in_texts_of_metrics_and_events(self):
        self.write("a.cc", 'x(metrics.MakeCounter(\n    "espalier_a_total", "Flows that left "\n    "a link"));\n')
        self.write("controller/api/event-kinds.json",
                   '{"kinds": [{"kind": "b", "meaning": "It came up.", "remedy": "Look at it."}]}')
        self.assertEqual([(place, verb) for place, verb, _ in vague_verbs.find_vague(self.root, None)],
                         [("a.cc: espalier_a_total", "left"), ("event b", "Look")])

    def test_allows_what_the_field_says(self):
        for text in ("The option --ca takes precedence", "Links that went down", "Ports that take another path",
                     "Leaves without links", "Links that tests took out of use"):
            self.assertEqual(vague_verbs.verbs_in(text), [], text)
        self.assertEqual(vague_verbs.verbs_in("Tell what it takes"), ["Tell", "takes"])


class LinksTest(Folder):
    def test_names_links_that_lead_nowhere(self):
        self.write("docs/a.md", "# A `b` & c\n[up](../README.md#start) [far](https://x.y/z#q) ![p](p.png)\n"
                                "[same](#a-b--c) `[code](no.md)`\n[split\ntext](gone.md)\n[out](../../etc/passwd)\n")
        self.write("README.md", "# Start\n## Start\n[x](docs/a.md#nowhere) [y](#start-1)\n")
        self.assertEqual([broken.split(" leads")[0] for broken in
                          links.find_broken(self.root, ["README.md", "docs/a.md"])],
                         ["README.md:3: docs/a.md#nowhere", "docs/a.md:2: p.png", "docs/a.md:4: gone.md",
                          "docs/a.md:6: ../../etc/passwd"])


class CommandsTest(Folder):
    def faults(self, tested=(), fewest=1):
        return [f"{place} {fault.splitlines()[0][:40]}" for place, fault in
                commands.Check(self.root, "/nowhere/espalier", tested, fewest).faults()]

    def test_names_sources_that_do_not_exist(self):
        self.write("common/base/x.h", "")
        self.write("docs/a.md", "`common/base/x`, `common/base/` and `common/base/y.cc`\n```\n`common/z`\n```\n")
        self.assertEqual(list(links.find_lost_sources(self.root, ["docs/a.md"])),
                         ["docs/a.md:1: common/base/y.cc does not exist"])

    def test_wants_every_block_executed_or_tested_or_marked(self):
        self.write("a.md", "```\nls -l\n```\n<!-- not executed: needs root -->\n```\nreboot\n```\n"
                           "<!-- not executed: not above -->\n\n```\nhalt\n```\n```text\nNAME\n```\n")
        self.assertEqual(self.faults(fewest=0), ["a.md:2 `ls -l` is neither executed nor in a tes",
                                                 "a.md:11 `halt` is neither executed nor in a test"])

    def test_compares_what_commands_print(self):
        self.write("a.md", "```\n$ printf 'a\\nb\\n' > file\n$ sed s/a/c/ file\nc\n$ sed s/a/d/ \\\n  file\na\n```\n"
                           "```\nprintf x\nsed s/a/b/ none 2>&1\n```\n")
        self.assertEqual(self.faults(), ["a.md:5 `sed s/a/d/   file` prints something els",
                                         "a.md:11 `sed s/a/b/ none 2>&1` failed: "])

    def test_looks_for_commands_in_their_tests(self):
        self.write("a.md", "```\nespalier-agent --check\nib_write_bw -x 1\n```\n")
        self.write("tests/t", "run espalier-agent")
        self.assertEqual(self.faults([("a.md", "--check", ["tests/t"]), ("a.md", "gone", ["tests/t"])], 0),
                         ["a.md:3 `ib_write_bw` is not in tests/t",
                          'a.md TESTED has a line for "gone", and no blo'])
        self.assertEqual(self.faults([("a.md", "--check", ["tests/u"])], 0)[0], "a.md:2 there is no test tests/u")


class RetiredWordsTest(Folder):
    def find(self, *lines):
        self.write("words.txt", "\n".join(lines) + "\n")
        return [place for place, _ in retired_words.find_retired(
            self.root, retired_words.read_words(self.root / "words.txt"))]

    def test_finds_identifiers_by_their_parts(self):
        self.write("a.cc", "void TellPath();\nint tell_path_;\n// TellPath\nint TellPaths();\n"
                           "Use(\"tell_path\");\nint kTellPath;  // deprecated\n")
        self.write("tell_path.h", "")
        self.assertEqual(self.find("identifier: tell path -> NotifyPath"),
                         ["a.cc:1", "a.cc:2", "a.cc:5", "tell_path.h"])

    def test_finds_phrases_in_documents_and_texts(self):
        self.write("a.cc", "Log(\"made ahead of it\");\n// made ahead\n")
        self.write("a.md", "It was Made ahead.\nUnmade ahead, `made ahead`\n")
        self.write("CHANGELOG.md", "made ahead\n")
        self.write("docs/glossary.md", "| name | is | not |\n|---|---|---|\n| a | made ahead | |\n| b | c | made ahead |\n")
        self.assertEqual(self.find("# comment", "text: made ahead -> precomputed"),
                         ["a.cc:1", "a.cc:2", "a.md:1", "docs/glossary.md:3"])

    def test_reads_comments_and_no_directives(self):
        self.write("a.h", "#include <way_back>\n/** The way back. */\nint a;  // Its way back\n * way back\n")
        self.write("a.py", "#!/usr/bin/way back\nx = 1  # no mark\n# The way back\n")
        self.assertEqual(self.find("text: way back -> return path"), ["a.h:2", "a.h:3", "a.h:4", "a.py:3"])

    def test_finds_words_that_the_glossary_replaces(self):
        self.write("g.md", "| name | what it is | source | not |\n|---|---|---|---|\n"
                           "| path | A way. | RLM | way, strand line |\n| load | So. | | load (alone); \"what it bears\" |\n"
                           "\n| a | not a column |\n|---|---|\n| b | c |\n")
        self.assertEqual([(word.word, word.instead) for word in retired_words.read_glossary(self.root / "g.md")],
                         [("strand line", "path"), ("what it bears", "load")])

    def test_refuses_a_line_without_another_word(self):
        with self.assertRaises(ValueError):
            self.find("lonely")


class HelpTextsTest(unittest.TestCase):
    def test_reads_items_over_several_lines(self):
        text = ("Runs a job\nUsage: espalier job [OPTIONS]\n\nPositionals:\n  NAME TEXT=job               Names the job\n\n"
                "Options:\n  -h,--help                   Print this\n  --collective TEXT:{a,b}=allreduce\n"
                "                              What they do\n")
        self.assertEqual(help_texts.parse(text), ("Runs a job", {
            "Positionals": [["NAME TEXT=job", "Names the job"]],
            "Options": [["-h,--help", "Print this"], ["--collective TEXT:{a,b}=allreduce", "What they do"]]}))

    def test_tells_texts_without_a_head(self):
        for text in ("", "Whom to believe", "What it is", "Its API", "Of a call", "name of it"):
            self.assertIsNotNone(help_texts.fault_of(text), text)
        for text in ("Address of the API", "Run a job", "At most N flows", "JSON file"):
            self.assertIsNone(help_texts.fault_of(text), text)


class LimitsTest(unittest.TestCase):
    def test_fail_when_a_number_grows(self):
        report = prose.Report({"help": 5, "sentences": {"a.md": 40}}, 10)
        report.take("help", 5, 0, [])
        report.take_documents("sentences", {"a.md": 40, "b.md": 35}, 35, [])
        self.assertEqual(report.failures, [])
        report.take("help", 6, 0, [])
        report.take_documents("sentences", {"a.md": 41, "b.md": 36}, 35, [])
        self.assertEqual(len(report.failures), 3)
        self.assertEqual(report.lower, {"help": 5, "sentences": {"a.md": 40, "b.md": 35}})


class ConfigurationReferenceTest(unittest.TestCase):
    def fields_of(self, comment, row):
        return configuration_reference.Schema("x.proto", "// Example: x.conf\nmessage X {\n  // Section: All\n\n"
                                              + comment + "\n  repeated uint32 a_b = 1" + row + ";\n}\n").fields

    def test_reads_a_field(self):
        field, = self.fields_of("  // How long it waits.\n  // Ports wait less.",
                                ' [(io.option) = {\n    unit: "seconds \\"per\\" flow" default: "600"\n    reload: true\n  }]')
        self.assertEqual((field.name, field.type_name(), field.unit, field.default, field.meaning, field.can_reload),
                         ("a_b", "list of numbers", 'seconds "per" flow', "600",
                          "How long it waits. Ports wait less.", True))
        self.assertEqual(list(field.faults()), [])

    def test_names_what_a_comment_lacks(self):
        field, = self.fields_of("  // of ports", "")
        self.assertEqual(len(list(field.faults())), 3)

    def test_reads_what_an_example_file_shows(self):
        self.assertEqual(configuration_reference.shown_values(
            "# a: 1   # so\n# Note: no field\n# this is: no field either\nb: \"x y\"\n# c: D\neal: \"-l\" eal: \"1\"\n"),
            {"a": ["1"], "b": ['"x y"'], "c": ["D"], "eal": ['"-l"']})


if __name__ == "__main__":
    unittest.main()
