#!/usr/bin/env python3
"""Check that alert rules and the dashboard use existing metrics, and that the runbook has every alert.

usage: monitoring_test.py SOURCE_FOLDER
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

METRIC = re.compile(r"espalier_[a-z_]+")


def made_by_the_daemons():
    """The names of all metrics, and of those that are histograms."""
    names, histograms = set(), set()
    for folder in ("controller", "agent"):
        for file in (root / folder).rglob("*.cc"):
            text = file.read_text()
            for kind, name in re.findall(r'Make(Counter|Gauges|Gauge|Latency)\(\s*"(\w+)"', text):
                names.add(name)
                if kind == "Latency":
                    histograms.add(name)
                    names.update({name + "_bucket", name + "_count", name + "_sum"})
    return names, histograms


class MonitoringTest(unittest.TestCase):
    def setUp(self):
        self.rules = root / "deploy/prometheus/espalier.rules.yaml"
        self.board = root / "deploy/grafana/espalier.json"

    def test_metrics_exist(self):
        made, _ = made_by_the_daemons()
        self.assertGreater(len(made), 30)
        for file in (self.rules, self.board):
            used = set(METRIC.findall(file.read_text()))
            self.assertGreater(len(used), 10)
            self.assertEqual(used - made, set(), file)

    def test_every_stage_is_documented_and_on_the_board(self):
        document = (root / "docs/metrics.md").read_text()
        stages = re.findall(r"^\| `(espalier_\w+_seconds)`", document, re.MULTILINE)
        self.assertGreater(len(stages), 8)
        _, histograms = made_by_the_daemons()
        self.assertLessEqual(set(stages), histograms)
        self.assertEqual({name for name in histograms if f"`{name}`" not in document}, set())
        text = self.board.read_text()
        self.assertEqual([stage for stage in stages if stage + "_bucket" not in text], [])

    def test_panels_do_not_overlap(self):
        taken = set()
        for panel in json.loads(self.board.read_text())["panels"]:
            at = panel["gridPos"]
            cells = {(x, y) for x in range(at["x"], at["x"] + at["w"])
                     for y in range(at["y"], at["y"] + at["h"])}
            self.assertFalse(cells & taken, panel["title"])
            self.assertTrue(all(x < 24 for x, _ in cells), panel["title"])
            taken |= cells

    def test_the_runbook_knows_every_alert(self):
        runbook = (root / "docs/operating.md").read_text()
        alerts = re.findall(r"alert: (\w+)", self.rules.read_text())
        self.assertGreater(len(alerts), 8)
        self.assertEqual([alert for alert in alerts if f"`{alert}`" not in runbook], [])

    def test_promtool_likes_the_rules(self):
        promtool = shutil.which("promtool")
        if promtool is None:
            self.skipTest("there is no promtool here (Debian package prometheus)")
        folder = self.rules.parent
        for arguments in (["check", "rules", self.rules.name],
                          ["test", "rules", "espalier.rules.test.yaml"]):
            done = subprocess.run([promtool, *arguments], cwd=folder, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    root = pathlib.Path(sys.argv[1])
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
