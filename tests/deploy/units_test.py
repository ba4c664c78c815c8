#!/usr/bin/env python3
"""Check the privileges of the systemd units, as `systemd-analyze security` measures them (0: none, 10:
all), and the settings that each unit must have.

usage: units_test.py SOURCE_FOLDER

Exit code 77 (ctest: skipped) if systemd-analyze is missing or too old to analyse files.
"""
import collections
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

# The maximum exposure. The remaining privileges: the agent sends raw packets; the datapath uses devices,
# the host's network and locked memory.
MOST_EXPOSED = {"controller": 2.0, "engine": 2.0, "agent": 2.3, "dpdk": 2.7, "telemetry": 1.9}
CAPABILITIES = {"controller": {"CAP_NET_BIND_SERVICE"}, "engine": set(), "agent": {"CAP_NET_RAW"},
                "dpdk": {"CAP_NET_RAW", "CAP_NET_ADMIN", "CAP_IPC_LOCK"}, "telemetry": set()}
UNITS = pathlib.Path(sys.argv.pop(1)) / "deploy" / "systemd"


def settings(name):
    """The values of each setting, in order."""
    found = collections.defaultdict(list)
    for line in (UNITS / f"espalier-{name}.service").read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found[key].append(value)
    return found


class Units(unittest.TestCase):
    def test_no_unit_exposes_more_than_it_did(self):
        for name, most in MOST_EXPOSED.items():
            with self.subTest(name):
                path = UNITS / f"espalier-{name}.service"
                output = subprocess.run(
                    ["systemd-analyze", "security", "--offline=true", "--no-pager", path],
                    check=True, capture_output=True, text=True).stdout
                exposed = float(re.search(r"Overall exposure level.*: ([0-9.]+)", output).group(1))
                print(f"espalier-{name}: {exposed}")
                self.assertLessEqual(exposed, most, output)

    def test_daemons_share_no_user_and_none_is_root(self):
        users = [settings(name)["User"] for name in MOST_EXPOSED]
        self.assertTrue(all(len(user) == 1 and user[0] not in ("", "root", "0") for user in users))
        self.assertEqual(len({user[0] for user in users}), len(users))

    def test_no_unit_has_more_capabilities_than_its_daemon_needs(self):
        for name, needed in CAPABILITIES.items():
            for key in ("CapabilityBoundingSet", "AmbientCapabilities"):
                with self.subTest(f"{name} {key}"):
                    given = settings(name)[key]
                    self.assertEqual(set(" ".join(given).split()), needed)
        for name in CAPABILITIES:  # where it is missing, the bounding set has them all
            self.assertEqual(len(settings(name)["CapabilityBoundingSet"]), 1, name)

    def test_a_daemon_that_hangs_or_dies_is_started_anew_for_ever(self):
        for name in MOST_EXPOSED:
            with self.subTest(name):
                unit = settings(name)
                self.assertEqual(unit["Type"], ["notify"])
                self.assertGreater(int(unit["WatchdogSec"][0]), 0)
                self.assertEqual(unit["Restart"], ["always"])
                self.assertEqual(unit["StartLimitIntervalSec"], ["0"])

    def test_every_daemon_has_limits(self):
        for name in MOST_EXPOSED:
            for key in ("MemoryMax", "TasksMax", "OOMScoreAdjust", "LimitNOFILE"):
                with self.subTest(f"{name} {key}"):
                    self.assertEqual(len(settings(name)[key]), 1)


if __name__ == "__main__":
    if shutil.which("systemd-analyze") is None:
        print("skipped: systemd-analyze is missing (apt-get install systemd)")
        sys.exit(77)
    version = subprocess.run(["systemd-analyze", "--version"], capture_output=True, text=True).stdout
    if int(re.search(r"systemd (\d+)", version).group(1)) < 252:
        print("skipped: systemd-analyze is older than 252")
        sys.exit(77)
    unittest.main()
