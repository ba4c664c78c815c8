#!/usr/bin/env python3
"""The operator's page in a headless Chromium, against a running controller with real agents of
simulated hosts.

usage: page_test.py CONTROLLER SIMULATED_HOSTS [unittest arguments]; exit code 77: no Chromium.
"""

import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse
import urllib.request

from chromium import Browser, find_chromium

HOSTILE_JOB = "<img src=x onerror=\"document.title='owned'\">"
HOSTILE_TREES = "<b onclick=alert(1)>trees"
HOSTILE_SPINE = "</script><script>document.title='owned'</script>"
LINK = "leaf1--spine2"
TOKEN = "esp_of_the_page"


class Cluster:
    """A controller and, where there are jobs, simulated hosts."""

    def __init__(self, controller, hosts, spines=4, leaves=4, hosts_per_leaf=4, jobs=2):
        self._controller = controller
        self.folder = tempfile.mkdtemp(prefix="espalier-page-")
        with socket.socket() as probe:  # a port that is free now
            probe.bind(("127.0.0.1", 0))
            self.address = f"http://127.0.0.1:{probe.getsockname()[1]}"
        topology = os.path.join(self.folder, "topology.json")
        shape = [f"--spines={spines}", f"--leaves={leaves}", f"--hosts-per-leaf={hosts_per_leaf}",
                 f"--first-spine={HOSTILE_SPINE}"]
        subprocess.run([hosts, *shape, f"--write-topology={topology}"], check=True)
        bus = f"ipc://{self.folder}/bus"
        with open(os.path.join(self.folder, "controller.conf"), "w") as file:
            file.write(f'topology_file: "{topology}"\nlisten: "{bus}"\nlog_level: "error"\n'
                       f'insecure_plaintext: true\nkey_folder: "{self.folder}"\n'
                       f'state_file: "{self.folder}/store.db"\n'
                       f'http: "{self.address.removeprefix("http://")}"\n')
        tokens = [{"name": "page", "role": "operator", "made": "2026-11-21T12:00Z",
                   "sha256": hashlib.sha256(TOKEN.encode()).hexdigest()}]
        with open(os.open(os.path.join(self.folder, "tokens"), os.O_CREAT | os.O_WRONLY, 0o600),
                  "w") as file:
            json.dump({"tokens": tokens}, file)
        self.process = None
        self.start_controller()
        self._hosts = None
        if jobs > 0:
            self._hosts = subprocess.Popen(
                [hosts, *shape, f"--controller={bus}", f"--jobs={jobs}", "--flows=2",
                 "--round-seconds=2", f"--first-job={HOSTILE_JOB}"])

    def start_controller(self):
        self.process = subprocess.Popen(
            [self._controller, f"--config={self.folder}/controller.conf"])

    def kill_controller(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        if self._hosts is not None:
            self._hosts.kill()
            self._hosts.wait()
        self.kill_controller()
        shutil.rmtree(self.folder, ignore_errors=True)

    def get(self, view):
        request = urllib.request.Request(f"{self.address}/api/v1/{view}",
                                         headers={"Authorization": f"Bearer {TOKEN}"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def post(self, path, body=None):
        request = urllib.request.Request(f"{self.address}/api/v1/{path}", method="POST",
                                         data=json.dumps(body).encode() if body else b"",
                                         headers={"Authorization": f"Bearer {TOKEN}"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def forest(self):
        return next(iter(self.get("forests")["forests"]), None)

    def state_of(self, link):
        return next(one["state"] for one in self.get("links")["links"] if one["id"] == link)

    def wait(self, condition, what):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                if condition():
                    return
            except OSError:
                pass
            time.sleep(0.05)
        raise AssertionError(f"never happened: {what}")


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(*binaries)
        cls.addClassCleanup(cls.cluster.close)
        cls.cluster.wait(lambda: len(cls.cluster.get("jobs")["jobs"]) == 2, "both jobs run")
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.__exit__)

    def problems(self):
        """What the page met. That a flow has ended before the controller was asked about it is none
        (and is told late, where the machine is slow: perhaps to the next test)."""
        return [problem for problem in self.page.problems
                if "404" not in problem or "/flows/explain?" not in problem]

    def setUp(self):
        self.page = self.browser
        self.page.set_dark(False)
        self.page.problems.clear()
        self.page.open("about:blank")
        self.page.open(self.cluster.address + "/")
        self.log_in()
        self.await_live()

    def tearDown(self):
        if os.environ.get("ESPALIER_PAGE_PICTURES"):
            self.page.picture(os.path.join(os.environ["ESPALIER_PAGE_PICTURES"],
                                           f"{self._testMethodName}.png"))

    def log_in(self):
        """Gives the page its token where it asks for one."""
        live = "document.getElementById('connection').textContent === 'live'"
        asked = "document.getElementById('token') !== null && document.getElementById('dialog').open"
        self.page.wait(f"({live}) || ({asked})")
        if self.page.run(asked):
            self.page.run(f"document.getElementById('token').value = '{TOKEN}'")
            self.page.run("document.querySelector('#dialog form').requestSubmit()")
            self.page.problems.clear()  # that it was asked is one

    def await_live(self):
        self.page.wait("document.getElementById('connection').textContent === 'live'")
        self.page.wait("document.getElementById('figure-agents').textContent.startsWith('16')")

    def open_panel(self, name):
        self.page.click(f"#tab-{name}")
        self.page.wait(f"document.getElementById('tab-{name}').ariaSelected === 'true'")

    def pick_link(self, link):
        self.open_panel("links")
        self.page.run("document.querySelector('.table .body').scrollTop = "
                      "29 * 16")
        self.page.wait(f"[...document.querySelectorAll('.line:not([hidden])')]"
                       f".some(line => line.textContent.startsWith('{link}'))")
        self.page.run(f"[...document.querySelectorAll('.line:not([hidden])')]"
                      f".find(line => line.textContent.startsWith('{link}')).click()")
        self.page.wait(f"document.querySelector('#details h2').textContent === '{link}'")

    def act(self, action, reason=""):
        """Presses a button in the details; waits until the dry run has answered."""
        self.page.click(f"#details [data-action={action}]")
        self.page.wait("document.getElementById('dialog').open && "
                       "!document.getElementById('confirm').disabled")
        if reason:
            self.page.run("document.getElementById('reason').focus()")
            self.page.type(reason)

    def confirm(self):
        self.page.click("#confirm")
        self.page.wait("!document.getElementById('dialog').open")

    def choose(self, select, value):
        self.page.run(f"""(() => {{
          const select = document.getElementById('{select}');
          select.value = {value};
          select.dispatchEvent(new Event('change'));
        }})()""")

    def pixels_of(self, colour):
        """How much of the picture has a colour of the style: planned edges have accent."""
        return self.page.run("((name) => {" """
          const canvas = document.getElementById('fabric');
          const style = getComputedStyle(document.documentElement).getPropertyValue(name);
          const wanted = [1, 3, 5].map(at => parseInt(style.trim().slice(at, at + 2), 16));
          const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
          let found = 0;
          for (let i = 0; i < data.length; i += 4) {
            if (wanted.every((part, at) => data[i + at] === part)) ++found;
          }
          return found;
        })""" + f"('--{colour}')")

    def test_draws_the_fabric(self):
        colours = self.page.wait("""(() => {
          const canvas = document.getElementById('fabric');
          const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
          const seen = new Set();
          for (let i = 0; i < data.length; i += 4) {
            if (data[i + 3] > 250) seen.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
          }
          return seen.size > 8 ? seen.size : 0;
        })()""")
        self.assertGreater(colours, 8)
        self.page.wait("document.getElementById('pace').textContent.startsWith('First picture')")
        self.assertEqual(self.problems(), [])

    def test_draws_a_large_fabric(self):
        large = Cluster(*binaries, spines=32, leaves=64, hosts_per_leaf=32, jobs=0)
        self.addCleanup(large.close)
        large.wait(lambda: large.get("status"), "it answers")
        self.page.open(large.address + "/")
        self.log_in()
        self.page.wait("document.getElementById('tab-links').textContent.includes('4,096')")
        self.page.wait("document.getElementById('pace').textContent.startsWith('First picture')")
        self.cluster.wait(lambda: self.pixels_of("muted") > 500, "its switches are drawn")
        self.page.key("f")
        self.page.key("ArrowRight")
        self.page.wait("document.querySelector('#details h2').textContent === 'leaf0'")
        self.page.key("ArrowLeft")
        self.page.wait("document.querySelector('#details h2').textContent === 'leaf63'")
        self.page.key("ArrowUp")
        self.page.wait("document.querySelector('#details h2').textContent === 'spine31'")
        self.assertEqual(self.problems(), [])

    def test_follows_the_flows(self):
        self.open_panel("flows")
        row = self.page.wait("""(() => {
          const line = document.querySelector('.line:not([hidden])');
          const cells = line && [...line.children].map(cell => cell.textContent);
          return cells && cells[7].startsWith('routed') ? cells : null;
        })()""")
        self.assertRegex(row[0], r"^h\d+:\d+$")
        self.assertTrue(49152 <= int(row[5]) <= 65535, row)
        self.assertIn(row[4], ["spine1", "spine2", "spine3", HOSTILE_SPINE])
        # Rounds end and begin: other flows, without a word from here.
        self.page.wait(f"!document.querySelector('.table').textContent.includes({row[0]!r})")
        self.page.wait("document.querySelectorAll('.line:not([hidden])').length > 0")
        self.assertEqual(self.problems(), [])

    def test_filters_flows_and_shows_one(self):
        self.page.key("/")
        self.assertEqual(self.page.run("document.activeElement.id"), "filter")
        self.page.type("h3")
        self.page.wait("""(() => {
          const lines = [...document.querySelectorAll('.line:not([hidden])')];
          return lines.length > 0 && lines.every(line => /h3/.test(line.textContent));
        })()""")
        self.page.run("document.querySelector('.line:not([hidden])').click()")
        self.page.wait("/^h\\d+:\\d+$/.test(document.querySelector('#details h2').textContent)")
        self.page.wait("document.getElementById('details').textContent.includes('Paths of its pair')")
        self.assertEqual(self.problems(), [])

    def test_shows_jobs_against_the_ideal(self):
        self.cluster.wait(
            lambda: all(job["rounds"] > 0 for job in self.cluster.get("jobs")["jobs"]), "rounds")
        self.page.wait("/ideal \\d/.test(document.querySelector('.job').textContent)")
        self.page.wait("document.querySelector('.job svg rect') !== null")

    def test_draws_the_trees_of_a_job(self):
        self.open_panel("trees")
        self.page.wait("/espalier job start/.test(document.getElementById('panel').innerText)")
        ranks = [f"h{number}" for number in (0, 5, 10, 15)]
        self.cluster.post("jobs/start", {"name": HOSTILE_TREES, "ranks": ranks})
        self.addCleanup(self.cluster.wait, lambda: self.cluster.forest() is None, "it ends")
        self.addCleanup(self.cluster.post, f"jobs/stop?id={urllib.parse.quote(HOSTILE_TREES)}")
        self.cluster.wait(lambda: (self.cluster.forest() or {}).get("status") == "READY", "a plan")
        plan = self.cluster.get(f"forests/plan?job={urllib.parse.quote(HOSTILE_TREES)}")
        rows = "[...document.querySelectorAll('.split .line:not([hidden])')]"
        self.page.wait(f"{rows}.length > 0 && document.querySelector('.forest') !== null")
        self.assertEqual(self.page.run("document.querySelector('.split .table').ariaRowCount"
                                       " ?? document.querySelector('.split .table')"
                                       ".getAttribute('aria-rowcount')"), str(len(plan["edges"])))
        self.assertIn(HOSTILE_TREES, self.page.text(".forest"))
        before = self.pixels_of("accent")
        self.page.click(".forest")
        self.page.wait(f"document.querySelector('#details h2').textContent === "
                       f"{json.dumps(HOSTILE_TREES)}")
        self.page.wait(f"document.getElementById('details').textContent.includes("
                       f"'all {len(plan['edges'])}')")
        self.cluster.wait(lambda: self.pixels_of("accent") > before + 200, "arrows are drawn")
        # One rank's edges only, over the spines of the plan.
        self.choose("tree-rank", 1)
        own = [edge for edge in plan["edges"] if 1 in (edge["from"], edge["to"])]
        self.page.wait(f"document.getElementById('details').textContent.includes("
                       f"'{len(own)} from and to h5')")
        self.page.wait(f"{rows}.length === {len(own)}")
        cells = self.page.run(f"{rows}.map(line => [...line.children].map(one => one.textContent))")
        self.assertEqual(
            {(ranks.index(row[0]), ranks.index(row[1]), int(row[2]), row[3], row[6])
             for row in cells},
            {(edge["from"], edge["to"], edge["channel"], edge["via"], str(edge["source_port"]))
             for edge in own})
        self.assertTrue(all(row[4].endswith("bit/s") for row in cells), cells)
        # One tree: job, root, tree.
        self.choose("tree-rank", -1)
        self.choose("tree-root", 2)
        own = [tree for tree in plan["trees"] if tree["root"] == 2]
        offered = self.page.run("[...document.getElementById('tree-one').options]"
                                ".map(one => Number(one.value))")
        self.assertEqual(offered, [-1] + [tree["id"] for tree in own])
        self.assertEqual({tree["towards_root"] for tree in own}, {False, True})
        for tree in own[:1] + own[-1:]:
            self.choose("tree-one", tree["id"])
            edges = [plan["edges"][edge] for edge in tree["edges"]]
            self.assertGreaterEqual(len(edges), 3)
            self.page.wait(f"{rows}.length === {len(edges)}")
            cells = self.page.run(
                f"{rows}.map(line => [...line.children].map(one => one.textContent))")
            self.assertEqual({(ranks.index(row[0]), ranks.index(row[1]), row[3]) for row in cells},
                             {(edge["from"], edge["to"], edge["via"]) for edge in edges})
            self.page.wait(f"document.getElementById('details').textContent"
                           f".includes('height {tree['height']}')")
        self.cluster.wait(lambda: self.pixels_of("accent") > before, "the tree is drawn")
        self.assertEqual(self.page.run("document.title"), "Espalier")
        self.assertEqual(self.problems(), [])

    def test_shows_what_it_expects(self):
        self.cluster.wait(lambda: any(job["next_known"] for job in
                                      self.cluster.get("predict")["predict"]), "a prediction")
        self.open_panel("predictions")
        row = self.page.wait("""(() => {
          const rows = [...document.querySelectorAll('.line:not([hidden])')]
              .map(line => [...line.children].map(cell => cell.textContent));
          return rows.find(cells => /^(in \\d|due)/.test(cells[3])) ?? null;
        })()""")
        self.assertIn(row[0], [HOSTILE_JOB, "job-1"])
        self.assertEqual(row[1], "on")
        self.assertRegex(row[2], r"^\d.* m?s$")
        self.assertRegex(row[4], r"^\d+ %$")
        self.assertGreater(int(row[5]), 0)
        side = self.page.text(".split > div")
        self.assertRegex(side, r"With an up-to-date failure plan\d")
        self.page.run("document.querySelector('.line:not([hidden])').click()")
        self.page.wait("/All-reduce/.test(document.getElementById('details').textContent)")
        self.assertEqual(self.page.run("document.title"), "Espalier")
        self.assertEqual(self.problems(), [])

    def test_shows_what_would_move_and_fails_a_link_only_then(self):
        self.pick_link(LINK)
        self.act("fail", "dirty optics")
        self.page.wait("/would move/.test(document.querySelector('.outcome').textContent)")
        self.assertEqual(self.cluster.state_of(LINK), "UP")
        self.page.click("#cancel")
        self.page.wait("!document.getElementById('dialog').open")
        self.assertEqual(self.cluster.state_of(LINK), "UP")
        failed = self.pixels_of("failed")
        self.act("fail", "dirty optics")
        self.confirm()
        self.assertEqual(self.cluster.state_of(LINK), "DOWN")
        self.cluster.wait(lambda: self.pixels_of("failed") > failed + 50, "it is marked")
        self.page.wait("/failed/.test(document.getElementById('details').textContent)")
        self.page.wait("/dirty optics/.test(document.getElementById('details').textContent)")
        self.assertEqual(self.cluster.get("audit")["audit"][-1]["reason"], "dirty optics")
        self.open_panel("events")
        self.page.wait("/link failed/.test(document.getElementById('panel').textContent)")
        self.act("restore")
        self.confirm()
        self.assertEqual(self.cluster.state_of(LINK), "UP")
        self.page.wait("document.getElementById('figure-links').textContent.startsWith('0')")
        self.assertEqual(self.problems(), [])

    def test_drains_a_switch_by_keyboard_and_rolls_back(self):
        self.page.key("f")
        self.assertEqual(self.page.run("document.activeElement.id"), "fabric")
        self.page.key("ArrowRight")
        self.page.wait("document.querySelector('#details h2').textContent === 'leaf0'")
        self.page.key("ArrowRight")
        self.page.key("ArrowUp")
        self.page.wait("document.querySelector('#details h2').textContent === 'spine1'")
        drained = self.pixels_of("drained")
        self.act("drain")
        self.confirm()
        self.cluster.wait(lambda: self.pixels_of("drained") > drained + 50, "it is marked")
        self.assertEqual(self.cluster.state_of("leaf1--spine1"), "DRAINED")
        self.page.wait("/drained/.test(document.getElementById('details').textContent)")
        self.open_panel("intents-and-audit")
        self.page.wait("/drained node spine1/.test(document.getElementById('panel').textContent)")
        self.page.click("#rollback")
        self.page.wait("!document.getElementById('confirm').disabled")
        self.confirm()
        self.assertEqual(self.cluster.state_of("leaf1--spine1"), "UP")

    def test_recomputes(self):
        self.page.key("r")
        self.page.wait("document.getElementById('dialog').open && "
                       "!document.getElementById('confirm').disabled")
        self.assertIn("Recompute all paths", self.page.text("#dialog"))
        self.confirm()
        self.page.wait("/done/.test(document.getElementById('toasts').textContent)")

    def test_names_are_only_text(self):
        for panel in ("jobs", "flows", "links", "agents", "path-map", "trees", "predictions", "events"):
            self.open_panel(panel)
            self.page.wait("document.getElementById('panel').textContent.length > 20")
        self.open_panel("jobs")
        self.page.wait(f"document.body.textContent.includes({json.dumps(HOSTILE_JOB)})")
        self.page.run("document.querySelector('.job').click()")
        self.open_panel("links")
        self.page.run("document.querySelector('.line:not([hidden])').click()")
        self.page.key("f")
        for _ in range(4):
            self.page.key("ArrowLeft")
        self.page.key("ArrowUp")
        self.page.wait(f"document.querySelector('#details').textContent.includes('spine')"
                       f"|| document.querySelector('#details').textContent.includes('script')")
        self.assertEqual(self.page.run("document.title"), "Espalier")
        self.assertEqual(self.page.run("document.querySelectorAll('main script, main img').length"), 0)
        self.assertEqual(self.problems(), [])

    def test_keyboard_and_help(self):
        self.page.key("?")
        self.page.wait("document.getElementById('dialog').open")
        self.page.run("document.querySelector('#dialog .primary').click()")
        for number, name in ((2, "flows"), (4, "agents"), (7, "predictions"), (1, "jobs")):
            self.page.key(str(number))
            self.page.wait(f"document.getElementById('tab-{name}').ariaSelected === 'true'")
        unnamed = self.page.run("""[...document.querySelectorAll('button, input, select, canvas')]
          .filter(one => !(one.ariaLabel || one.getAttribute('aria-label') || one.textContent.trim()
                           || one.labels?.length)).length""")
        self.assertEqual(unnamed, 0)

    def test_is_dark_or_light(self):
        ground = "getComputedStyle(document.body).backgroundColor"
        light = self.page.run(ground)
        self.page.set_dark(True)
        self.page.wait(f"{ground} !== '{light}'")
        self.page.key("t")
        self.page.wait(f"{ground} === '{light}'")
        self.page.run("localStorage.clear()")

    def test_asks_nobody_else(self):
        origins = self.page.run(
            "performance.getEntriesByType('resource').map(one => new URL(one.name).origin)")
        self.assertEqual(set(origins), {self.cluster.address})

    def test_says_that_the_controller_is_gone_and_comes_back(self):
        self.cluster.kill_controller()
        self.page.wait("!document.getElementById('trouble').hidden")
        self.assertIn("does not answer", self.page.text("#trouble"))
        self.assertTrue(self.page.run("document.getElementById('recompute').disabled"))
        self.cluster.start_controller()
        self.log_in()  # who was logged in is known to the process alone
        self.await_live()
        self.page.wait("document.getElementById('trouble').hidden")
        self.page.wait("document.getElementById('figure-agents').textContent.startsWith('16')")


if __name__ == "__main__":
    if find_chromium() is None:
        print("skipped: there is no chromium here (deploy/setup installs it)")
        sys.exit(77)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    binaries = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
