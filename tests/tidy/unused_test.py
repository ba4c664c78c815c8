#!/usr/bin/env python3
"""Tests of the search for what nothing uses."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import unused  # noqa: E402


class UnusedTest(unittest.TestCase):
    def find(self, **files):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            subprocess.run(["git", "init", "-q"], cwd=root, check=True)
            for name, text in files.items():
                place = root / name.replace("__", "/").replace("_dot_", ".")
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(text)
            return [name for _, name in unused.find_unused(root)]

    def test_names_what_is_only_declared_and_defined(self):
        self.assertEqual(self.find(
            agent__a_dot_h="int Dead(int x);\nint Live();\nenum E { kDead,\n kLive };\n  int size() const { return n; }\n",
            agent__a_dot_cc="int Dead(int x) { return x; }\nint Live() {\n  // Dead()\n  return Log(\"Dead\", kLive);\n}\n",
            agent__b_dot_cc="int B() {\n  return Live();\n}\n",
            tests__a_test_dot_cc="TEST(A, B) {\n  Dead(size());\n}\n"), ["Dead", "size"])

    def test_knows_use_in_tables_and_in_other_headers(self):
        self.assertEqual(self.find(
            agent__a_dot_h="void Row();\nint Other();\ninline int Use() { return Other(); }\n",
            agent__a_dot_cc="void Row() {}\n",
            agent__b_dot_cc="constexpr T kRows[] = {{\"row\", Row}};\nint B() {\n  return Use();\n}\n"), [])

    def test_the_product_has_nothing_that_is_unused(self):
        root = pathlib.Path(__file__).resolve().parents[2]
        self.assertEqual(list(unused.find_unused(root)), [])


if __name__ == "__main__":
    unittest.main()
