#!/usr/bin/env python3
"""Tests of the measures and limits of the structure of the sources."""
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import structure  # noqa: E402


class DivisionTest(unittest.TestCase):
    def errors(self, sources):
        return list(structure.check_modules(sources))

    def test_folder_may_have_twelve_modules(self):
        sources = {f"agent/m{i}.h": "" for i in range(12)} | {"agent/m1.cc": "", "tests/agent/m1_test.cc": ""}
        self.assertEqual(self.errors(sources), [])
        self.assertIn("agent has 13 modules", self.errors(sources | {"agent/more.h": ""})[0])
        self.assertEqual(self.errors({f"tests/a/m{i}.h": "" for i in range(20)}), [])

    def test_class_has_its_methods_in_one_file(self):
        header = "class Part {\n  void Run();\n};\n"
        one = '#include "agent/part.h"\nvoid Part::Run() {\n}\n'
        sources = {"agent/part.h": header, "agent/part.cc": one, "agent/more.h": "", "agent/more.cc": ""}
        self.assertEqual(self.errors(sources), [])
        for method in ("Part::Part() = default;", "int Part::Inner::Size() const {", "bool Part::operator==(int) {"):
            more = sources | {"agent/more.cc": f'#include "agent/part.h"\n{method}\n'}
            self.assertEqual(self.errors(more), ["class Part has methods in agent/more.cc and agent/part.cc "
                                                 "(make several classes of it)"], method)
        for use in ("  Part::Run();", "Part::Kind Other(int x) {", "// Part::Run(x)"):
            self.assertEqual(self.errors(sources | {"agent/more.cc": f'#include "agent/part.h"\n{use}\n'}), [], use)
        # Another class of the name, which the file does not include.
        self.assertEqual(self.errors(sources | {"agent/more.cc": "void Part::Run() {\n"}), [])

    def test_source_has_a_header_of_its_name(self):
        self.assertEqual(self.errors({"agent/main.cc": "", "agent/verbs/exports.cc": "", "tests/a_test.cc": ""}), [])
        self.assertEqual(self.errors({"agent/part.cc": ""}), ["agent/part.cc: has no header of its name"])


if __name__ == "__main__":
    unittest.main()
