#!/usr/bin/env python3
"""Tests tests/report.py on logs as ctest and GoogleTest write them."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

REPORT = pathlib.Path(__file__).resolve().parent / "report.py"
LINE = "-" * 58

PASSED = "100% tests passed, 0 tests failed out of 2\n"
SKIPPED = ("100% tests passed, 0 tests failed out of 1\n\n"
           "The following tests did not run:\n\t  1 - page_test (Skipped)\n")
WHOLE = f"""Start testing: Nov 24 02:06 UTC
{LINE}
1/1 Testing: page_test
1/1 Test: page_test
"page_test" start time: Nov 24
Output:
{LINE}
there is no chromium (apt-get install chromium)
<end of output>
Test time =   0.05 sec
{LINE}
Test Skipped.
{LINE}
"""
CASES = f"""{LINE}
1/2 Testing: base_test
1/2 Test: base_test
Output:
{LINE}
[ RUN      ] Users.AreKnown
[       OK ] Users.AreKnown (0 ms)
[ RUN      ] Users.AreSwitched
tests/common/base/local_user_test.cc:12: Skipped
only root switches users

[  SKIPPED ] Users.AreSwitched (0 ms)
<end of output>
"""


class Report(unittest.TestCase):
    def run_on(self, files, *words):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                pathlib.Path(folder, name).write_text(text)
            done = subprocess.run([sys.executable, str(REPORT), folder, *words], capture_output=True,
                                  text=True, check=False)
        return done.returncode, done.stdout

    def test_sums_stages_and_names_what_was_skipped(self):
        code, text = self.run_on({"unit.log": PASSED, "unit.tests": CASES, "page.log": SKIPPED,
                                  "page.tests": WHOLE, "format.log": ""})
        self.assertEqual(code, 0)
        self.assertIn("skipped in page: there is no chromium (apt-get install chromium) (1: page_test)", text)
        self.assertIn("skipped in unit: only root switches users (1: Users.AreSwitched)", text)
        self.assertEqual(text.splitlines()[-1], "2 passed, 0 failed, 2 skipped")

    def test_counts_what_failed(self):
        _, text = self.run_on({"unit.log": "50% tests passed, 1 tests failed out of 2\n"})
        self.assertEqual(text.splitlines()[-1], "1 passed, 1 failed, 0 skipped")

    def test_fails_where_a_whole_stage_was_skipped(self):
        files = {"page.log": SKIPPED, "page.tests": WHOLE, "unit.log": PASSED, "unit.tests": CASES}
        code, text = self.run_on(files, "--stage", "page")
        self.assertEqual(code, 1)
        self.assertIn("page_test: there is no chromium", text)
        self.assertEqual(self.run_on(files, "--stage", "unit")[0], 0)
        self.assertEqual(self.run_on({"format.log": ""}, "--stage", "format")[0], 0)


if __name__ == "__main__":
    unittest.main()
