#!/usr/bin/env python3
"""espalier-figures draws what an evaluation.json holds, and says what is wrong with one.

usage: figures_test.py ESPALIER-FIGURES

Exit code 77 (ctest: skipped) where python3-matplotlib is missing.
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml

SVG = "{http://www.w3.org/2000/svg}"


def run_of(algorithm, seconds, split=1, microseconds=5.0):
    """One run of jobs of the models BLOOM and LLAMA_3, the latter twice as slow."""
    return {"algorithm": algorithm, "split": split, "seed": 0, "max_link_load": 1.0,
            "assignments": 4, "assigned_flows": 40, "microseconds_per_assignment": microseconds,
            "wall_seconds": 0.1,
            "jobs": [{"job": f"job_{i}", "model": model, "allreduce_seconds": seconds * (i + 1),
                      "mean_flow_completion_seconds": 0.25 * seconds,
                      "mean_throughput_gbps": 100 / seconds}
                     for i, model in enumerate(["BLOOM", "LLAMA_3"])]}


def scenario(jobs, ring, failed, *runs):
    return {"concurrent_jobs": jobs, "ring_size": ring, "failed_spines": failed,
            "runs": list(runs)}


class Figures(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.file = self.folder / "evaluation.json"

    def draw(self, *scenarios):
        self.file.write_text(json.dumps({"scenarios": scenarios}))
        done = self.run_script(self.file)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def run_script(self, *arguments):
        return subprocess.run([SCRIPT, *map(str, arguments)], capture_output=True, text=True)

    def texts(self, number):
        root = xml.parse(self.folder / f"figure{number}.svg")
        return [text.text for text in root.iter(f"{SVG}text")]

    def tips(self, number):
        root = xml.parse(self.folder / f"figure{number}.svg")
        return [title.text for title in root.iter(f"{SVG}title") if title.text]

    def test_draws_every_value_of_chosen_schemes_with_a_tip(self):
        ecmp = [run_of("ecmp", seconds) for seconds in (9, 3, 7, 5)]
        self.draw(scenario(1, 2, 0, run_of("greedy", 1.5), *ecmp, run_of("optimal", 1.25, split=4),
                           run_of("optimal", 1, split=2)),
                  scenario(1, 2, 8, run_of("greedy", 2)), scenario(2, 4, 0, run_of("ideal", 0.5)))
        self.assertEqual(sorted(set(self.tips(4))),  # of BLOOM; of four runs the lower middle
                         ["ECMP (median): 5", "greedy: 1.5", "ideal: 0.5",
                          "optimal, split 4: 1.25"])
        for text in ("Figure 4: all-reduce time of BLOOM", "seconds", "ring size 2", "ring size 4",
                     "1 job", "2 jobs", "concurrent jobs", "ring size", "annealing", "greedy"):
            self.assertIn(text, self.texts(4))
        self.assertEqual(sorted(set(self.tips(5))),  # BLOOM and LLAMA_3 alike
                         ["ECMP (median): 1.25", "greedy: 0.375", "ideal: 0.125",
                          "optimal, split 4: 0.3125"])
        self.assertIn("ideal: 200", self.tips(6))
        for number in (5, 6):
            self.assertIn("LLAMA_3, ring size 4", self.texts(number))
        self.assertEqual(sorted(set(self.tips(8))),
                         ["ECMP (median): 5", "greedy: 1.5", "greedy: 2", "ideal: 0.5",
                          "optimal, split 4: 1.25"])
        # A panel that would have nothing in it is left out.
        self.assertIn("1 job, ring size 2", self.texts(8))
        self.assertNotIn("1 job, ring size 4", self.texts(8))

    def test_draws_times_by_flows_without_failures_and_without_those_that_take_none(self):
        self.draw(scenario(1, 2, 0, run_of("greedy", 1, microseconds=120.0), run_of("ecmp", 1),
                           run_of("ideal", 1), run_of("ilp", 1, microseconds=9e6),
                           run_of("annealing", 1, microseconds=0)),
                  scenario(1, 2, 4, run_of("greedy", 1, microseconds=77.0)))
        self.assertEqual(self.tips(7), ["greedy: 10, 120", "ILP: 10, 9e+06"])
        self.assertIn("greedy", self.texts(7))
        self.assertNotIn("ECMP (median)", self.texts(7))

    def test_draws_the_same_twice_and_where_it_is_told_to(self):
        self.draw(scenario(1, 2, 0, run_of("greedy", 1)))
        other = self.folder / "deeper" / "still"
        self.assertEqual(self.run_script(self.file, other).returncode, 0)
        for number in range(4, 9):
            name = f"figure{number}.svg"
            self.assertEqual((self.folder / name).read_bytes(), (other / name).read_bytes())

    def test_copes_with_nothing_to_show(self):
        self.draw()
        self.draw(scenario(1, 2, 0),
                  scenario(1, 2, 1, run_of("greedy", 1, microseconds=0)))
        self.assertEqual(self.tips(4) + self.tips(7), [])

    def test_says_what_is_wrong(self):
        missing = self.run_script(self.folder / "none.json")
        self.assertEqual(missing.returncode, 1)
        self.assertIn("none.json: No such file", missing.stderr)
        for text in ("", "[]", '{"scenarios": [{}]}'):
            self.file.write_text(text)
            wrong = self.run_script(self.file)
            self.assertEqual(wrong.returncode, 2, text)
            self.assertTrue(wrong.stderr.startswith(f"espalier-figures: {self.file}: "), text)
            self.assertNotIn("Traceback", wrong.stderr)
        self.assertEqual(self.run_script().returncode, 2)
        self.assertEqual(self.run_script("--help").returncode, 0)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    SCRIPT = str(pathlib.Path(sys.argv.pop()).resolve())
    if subprocess.run([SCRIPT, "--help"], capture_output=True).returncode != 0:
        print("skipped: python3-matplotlib is missing (deploy/setup --figures)")
        sys.exit(77)
    unittest.main()
