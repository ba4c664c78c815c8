#!/usr/bin/env python3
"""The operator's page in a headless Chromium, against a running controller with real agents of
simulated hosts.

usage: page_test.py CONTROLLER SIMULATED_HOSTS [unittest arguments]; exit code 77: no Chromium.
"""

import json
import os
import re
import urllib.parse

from cluster import HOSTILE_JOB, HOSTILE_SPINE, PageCase, main

HOSTILE_TREES = "<b onclick=alert(1)>trees"
LINK = "leaf1--spine2"


def channels(colour):
    """Red, green and blue of "rgb(1, 2, 3)" or "rgba(1, 2, 3, 0.5)"."""
    return [int(number) for number in re.findall(r"\d+", colour)[:3]]


class PageTest(PageCase):
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
        self.page.wait("document.body.dataset.firstPicture > 0")
        self.assertEqual(self.problems(), [])

    def test_draws_a_large_fabric(self):
        self.open_other("?fold=none", spines=32, leaves=64, hosts_per_leaf=32)
        self.page.wait("document.getElementById('tab-links').textContent.includes('4,096')")
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
        # A round may end at any moment, and its flows with it.
        self.page.wait("""(() => {
          const details = document.getElementById('details');
          if (/^h\\d+:\\d+$/.test(details.querySelector('h2').textContent)
              && details.textContent.includes('Paths of its pair')) return true;
          document.querySelector('.line:not([hidden])')?.click();
          return false;
        })()""")
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
        before = self.pixels_of("tree")
        self.page.click(".forest")
        self.page.wait(f"document.querySelector('#details h2').textContent === "
                       f"{json.dumps(HOSTILE_TREES)}")
        self.page.wait(f"document.getElementById('details').textContent.includes("
                       f"'all {len(plan['edges'])}')")
        self.cluster.wait(lambda: self.pixels_of("tree") > before + 200, "arrows are drawn")
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
        self.cluster.wait(lambda: self.pixels_of("tree") > before, "the tree is drawn")
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

    def test_is_three_files(self):
        """Each file more is a round trip before the first picture."""
        loaded = self.page.run("performance.getEntriesByType('resource')"
                               ".map(one => new URL(one.name).pathname)"
                               ".filter(name => !name.startsWith('/api/')).sort()")
        self.assertEqual(loaded, ["/app.js", "/icon.svg", "/page.css"])

    def test_shows_no_fractions(self):
        self.open_panel("links")
        texts = self.page.run("[...document.querySelectorAll('#figure-load, #details .row, .table [role=cell]')]"
                              ".map(one => one.textContent)")
        self.assertGreater(len(texts), 3)
        self.assertEqual([text for text in texts if re.search(r"\d/\d", text)], [])

    def test_the_chosen_view_is_visible_in_both_themes(self):
        colours = ("[...document.querySelectorAll('.choice button')].map(one => "
                   "[one.getAttribute('aria-checked'), getComputedStyle(one).backgroundColor, "
                   "getComputedStyle(one.parentElement).backgroundColor])")
        for _ in range(2):
            for checked, own, behind in self.page.run(colours):
                apart = sum(abs(a - b) for a, b in zip(channels(own), channels(behind)))
                self.assertEqual(apart > 25 and own != "rgba(0, 0, 0, 0)", checked == "true", (own, behind))
            self.page.key("t")
        self.page.run("localStorage.clear()")

    def test_names_break_between_their_parts_only(self):
        self.pick_link(LINK)
        self.page.wait("document.querySelector('#details h2 wbr') !== null")
        self.assertEqual(self.page.text("#details h2"), LINK)

    def test_says_that_the_controller_is_gone_and_comes_back(self):
        self.cluster.process.terminate()  # writes the log-ins that it has not written yet
        self.cluster.process.wait()
        self.page.wait("!document.getElementById('trouble').hidden")
        self.assertIn("does not answer", self.page.text("#trouble"))
        self.assertTrue(self.page.run("document.getElementById('recompute').disabled"))
        self.cluster.start_controller()
        self.await_live()  # without another log-in
        self.page.wait("document.getElementById('trouble').hidden")
        self.page.wait("document.getElementById('figure-agents').textContent.startsWith('16')")

    def test_does_not_say_behind_a_log_in_that_the_controller_is_gone(self):
        self.cluster.process.terminate()
        self.cluster.process.wait()
        os.remove(os.path.join(self.cluster.folder, "store.db.logins"))
        self.page.wait("!document.getElementById('trouble').hidden")
        self.cluster.start_controller()
        self.page.wait("document.getElementById('dialog').open")
        self.assertTrue(self.page.run("document.getElementById('trouble').hidden"))
        self.assertEqual(self.page.text("#connection"), "waits for a log-in")
        self.log_in()
        self.await_live()


if __name__ == "__main__":
    main()
