#!/usr/bin/env python3
"""Test that the soak driver finds planted defects: an input that crashes a fuzzer, a seed that fails.

Exit code 77 (ctest: skipped) without clang 19, which provides libFuzzer.
"""
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SOAK = pathlib.Path(__file__).with_name("soak")

PLANTED = """
#include <cstddef>
#include <cstdint>
#include <cstdlib>
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 2 && data[0] == 'B' && data[1] == 'U' && data[2] == 'G') std::abort();
  return 0;
}
"""
SOUND = """
#include <cstddef>
#include <cstdint>
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return size > 1 && data[0] == 1 && data[1] == 2 ? 0 : 0;
}
"""
# Every third seed fails; each run prints its seed.
SIMULATION = """#!/bin/sh
echo "seed $ESPALIER_SEED"
sleep 0.2
[ $((ESPALIER_SEED % 3)) != 0 ]
"""


class Soak(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.build, self.out = self.folder / "build", self.folder / "out"
        (self.build / "given").mkdir(parents=True)
        # As long as a useful input, and much longer than the shortest one that crashes.
        (self.build / "given" / "seed").write_bytes(b"BUx" + 60 * b"-")
        self.tests = self.build / "CTestTestfile.cmake"

    def add_fuzzer(self, name, source):
        binary = self.build / name
        subprocess.run(["clang++-19", "-fsanitize=fuzzer", "-x", "c++", "-", "-o", binary],
                       input=source, text=True, check=True)
        self.add_test(name, "fuzz", f'"{binary}" "-ignored" "{self.build / "given"}"')

    def add_simulation(self, name):
        script = self.build / name
        script.write_text(SIMULATION)
        script.chmod(0o755)
        self.add_test(name, "seeds", f'"{script}"')

    def add_test(self, name, label, command):
        with self.tests.open("a") as file:
            file.write(f'add_test({name} {command})\n'
                       f'set_tests_properties({name} PROPERTIES LABELS "unit;{label}")\n')

    def command(self, seconds):
        return [SOAK, "--hours", str(seconds / 3600), "--build", self.build, "--out", self.out,
                "--jobs", "2"]

    def run_soak(self, seconds):
        return subprocess.run(self.command(seconds), capture_output=True, text=True)

    def test_a_planted_crash_is_kept_and_made_smaller(self):
        self.add_fuzzer("planted_fuzz", PLANTED)
        result = self.run_soak(10)
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        found = self.out / "found" / "planted_fuzz"
        smaller = list(found.glob("minimised-crash-*"))
        self.assertTrue(smaller, result.stdout + str(list(found.iterdir())))
        self.assertEqual(smaller[0].read_bytes()[:3], b"BUG")
        self.assertLess(len(smaller[0].read_bytes()), 63)
        self.assertTrue(list(found.glob("crash-*.log")))
        self.assertRegex(result.stdout, r"planted_fuzz +\d+ .* [1-9]\d*\n")

    def test_sound_targets_leave_a_corpus_and_no_findings(self):
        self.add_fuzzer("sound_fuzz", SOUND)
        result = self.run_soak(3)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertTrue(list((self.out / "corpus" / "sound_fuzz").iterdir()))
        self.assertIn("0 findings", result.stdout)

    def test_a_seed_that_fails_is_kept_and_the_next_run_tries_new_ones(self):
        self.add_simulation("storm")
        result = self.run_soak(4)
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        first = sorted((self.out / "found" / "storm").iterdir())
        seed = int(first[0].name.removeprefix("seed-").removesuffix(".log"))
        self.assertEqual(seed % 3, 0)
        self.assertIn(f"seed {seed}", first[0].read_text())
        after = int((self.out / "corpus" / "storm" / "next_seed").read_text())
        self.run_soak(4)
        self.assertGreater(int((self.out / "corpus" / "storm" / "next_seed").read_text()), after)

    def test_ctrl_c_ends_with_the_summary(self):
        self.add_fuzzer("sound_fuzz", SOUND)
        process = subprocess.Popen(self.command(3600), stdout=subprocess.PIPE, text=True)
        while not (self.out / "corpus" / "sound_fuzz").is_dir():
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, output)
        self.assertRegex(output, r"sound_fuzz +\d+")

    def test_a_build_without_targets_is_refused(self):
        self.tests.write_text("")
        result = self.run_soak(1)
        self.assertEqual(result.returncode, 2)
        self.assertIn("no test with the label", result.stderr)


if __name__ == "__main__":
    if shutil.which("clang++-19") is None:
        print("skipped: clang++-19 is missing (apt-get install clang-19)")
        sys.exit(77)
    unittest.main()
