#!/usr/bin/env python3
"""What operators set on the page for a time: steering, maintenance windows, another topology.

usage: controls_test.py CONTROLLER SIMULATED_HOSTS [unittest arguments]; exit code 77: no Chromium.
"""

import json
import pathlib
import urllib.error
import urllib.parse

from cluster import ADMIN_TOKEN, HOSTILE_JOB, VIEWER_TOKEN, PageCase, main

LINK = "leaf1--spine2"
DIALOG_IS_READY = ("document.getElementById('dialog').open"
                   " && !document.getElementById('confirm').disabled")


class ControlsTest(PageCase):
    def setUp(self):
        super().setUp()
        self.page.wait("!document.getElementById('session').hidden")
        self.open_panel("controls")
        self.page.wait("document.querySelectorAll('.controls section').length === 3")

    def tearDown(self):
        super().tearDown()
        for path in ("steering/on?percent=100", "steering/on"):
            self.post_quietly(path)
        for window in self.cluster.get("maintenance")["windows"]:
            self.post_quietly(f"maintenance/cancel?id={window['window']}")

    def post_quietly(self, path):
        """What holds already is refused."""
        try:
            self.cluster.post(path)
        except urllib.error.HTTPError as error:
            self.assertEqual(error.code, 409)

    def press(self, control):
        self.page.wait(f"document.querySelector('[data-control=\"{control}\"]') !== null")
        self.page.click(f"[data-control=\"{control}\"]")
        self.page.wait("document.getElementById('dialog').open")

    def await_preview(self):
        self.page.wait(DIALOG_IS_READY)

    def steering(self):
        return self.cluster.get("steering")

    def last_audit(self):
        return self.cluster.get("audit")["audit"][-1]

    def test_switches_steering_off_and_on(self):
        self.press("steering-off")
        self.await_preview()
        self.assertTrue(self.steering()["on"], "a dry run changes nothing")
        self.fill("reason", "trial")
        self.fill("until", "+2h")
        self.await_preview()
        self.confirm()
        self.assertFalse(self.steering()["on"])
        self.assertEqual(self.last_audit()["reason"], "trial")
        self.assertEqual(self.last_audit()["actor"], "page")
        self.assertNotEqual(self.steering()["settings"][0]["until"], "")
        self.page.wait("/steering is off/.test(document.querySelector('.controls').textContent)")
        # The health says so, too.
        self.page.wait("document.getElementById('health').textContent !== 'ok'")
        self.press("steering-on")
        self.await_preview()
        self.confirm()
        self.assertTrue(self.steering()["on"])
        self.page.wait("/steering is on/.test(document.querySelector('.controls').textContent)")
        self.assertEqual(self.problems(), [])

    def test_steers_a_percentage(self):
        self.press("steering-percent")
        # All hosts are steered already.
        self.page.wait("/refused/.test(document.querySelector('.outcome').textContent)")
        self.page.run("document.getElementById('percent').value = ''")
        self.fill("percent", "250")
        self.page.wait("/0 to 100/.test(document.querySelector('.outcome').textContent)")
        self.assertTrue(self.page.run("document.getElementById('confirm').disabled"))
        self.page.run("document.getElementById('percent').value = ''")
        self.fill("percent", "40")
        self.await_preview()
        self.confirm()
        self.assertEqual(self.steering()["percent"], 40)
        self.assertLess(self.steering()["hosts_steered"], 16)
        self.page.wait("/40/.test(document.querySelector('.controls').textContent)")

    def test_leaves_out_a_host_and_a_job(self):
        self.press("steering-part")
        self.page.wait("/Name hosts or jobs/.test(document.querySelector('.outcome').textContent)")
        self.fill("host", "h3,h4")
        self.await_preview()
        self.confirm()
        self.assertEqual({one["scope"] for one in self.steering()["settings"]},
                         {"host h3", "host h4"})
        # A job, by its name that tries to be more than text.
        self.open_panel("jobs")
        self.page.wait(f"[...document.querySelectorAll('.job')].some(job => job.dataset.job === "
                       f"{json.dumps(HOSTILE_JOB)})")
        self.page.run(f"[...document.querySelectorAll('.job')].find(job => job.dataset.job === "
                      f"{json.dumps(HOSTILE_JOB)}).click()")
        self.page.wait("document.querySelector('#details [data-action=steer]') !== null")
        self.act("steer")
        self.confirm()
        self.assertIn(f"job {HOSTILE_JOB}", {one["scope"] for one in self.steering()["settings"]})
        self.cluster.wait(lambda: self.steering()["flows_unsteered"] > 0, "its flows are on ECMP")
        self.assertEqual(self.page.run("document.title"), "Espalier")
        for scope in ("host=h3,h4", f"job={urllib.parse.quote(HOSTILE_JOB)}"):
            self.cluster.post(f"steering/on?{scope}")

    def test_plans_a_window_and_removes_it(self):
        self.press("window-add")
        self.fill("id", "nosuch")
        self.page.wait("/no link, switch or host/.test(document.querySelector('.outcome').textContent)")
        self.page.run("document.getElementById('id').value = ''")
        self.fill("id", LINK)
        self.fill("from", "+2h")
        self.page.wait("/when the window ends/.test(document.querySelector('.outcome').textContent)")
        self.fill("until", "+1h")
        self.page.wait("/refused/.test(document.querySelector('.outcome').textContent)")
        self.page.run("document.getElementById('until').value = ''")
        self.fill("until", "+3h")
        self.await_preview()
        self.assertRegex(self.page.text(".outcome"), rf"adds: maintenance m\d+: drains link {LINK} from 20")
        self.fill("reason", "optics")
        self.confirm()
        window, = self.cluster.get("maintenance")["windows"]
        self.assertEqual((window["id"], window["kind"], window["state"], window["forced"]),
                         (LINK, "link", "WAITING", False))
        self.page.wait(f"/{window['window']}: link {LINK}/.test("
                       "document.querySelector('.controls').textContent)")
        self.press(f"end-{window['window']}")
        self.await_preview()
        self.confirm()
        self.assertEqual(self.cluster.get("maintenance")["windows"], [])
        self.page.wait("/There are none/.test(document.querySelector('.controls').textContent)")

    def test_drains_a_switch_for_a_window_that_begins_now(self):
        self.page.key("f")
        for key in ("ArrowRight", "ArrowRight", "ArrowUp"):
            self.page.key(key)
        self.page.wait("document.querySelector('#details h2').textContent === 'spine1'")
        node = self.page.text("#details h2")
        self.page.click("#details [data-action=maintain]")
        self.fill("until", "+1h")
        self.await_preview()
        self.page.wait("/would move/.test(document.querySelector('.outcome').textContent)")
        self.confirm()
        window, = self.cluster.get("maintenance")["windows"]
        self.assertEqual((window["id"], window["kind"], window["state"]), (node, "node", "ACTIVE"))
        self.page.wait("/drained/.test(document.getElementById('details').textContent)")
        self.press(f"end-{window['window']}")
        self.await_preview()
        self.assertIn("End window", self.page.text("#dialog h2"))
        self.confirm()
        self.cluster.wait(lambda: self.cluster.get("status")["links_down"] == 0
                          and all(link["state"] == "UP" for link in self.cluster.get("links")["links"]),
                          "it is back")

    def test_a_viewer_looks_only(self):
        self.log_in_as(VIEWER_TOKEN)
        self.open_panel("controls")
        self.page.wait("/takes the role operator/.test(document.querySelector('.controls').textContent)")
        self.assertEqual(self.page.run("document.querySelectorAll('.controls button, .controls input').length"), 0)
        self.log_in_as("esp_of_the_page")
        # An operator cannot apply a topology.
        self.open_panel("controls")
        self.page.wait("/takes the role admin/.test(document.querySelector('.controls').textContent)")
        self.assertFalse(self.page.run("document.getElementById('topology-file') !== null"))

    def give_file(self, name, text):
        """As an operator chooses a file."""
        path = pathlib.Path(self.cluster.folder, name)
        path.write_text(text)
        self.page.wait("document.getElementById('topology-file') !== null")
        root = self.page.call("DOM.getDocument")["root"]["nodeId"]
        found = self.page.call("DOM.querySelector", nodeId=root, selector="#topology-file")
        self.page.call("DOM.setFileInputFiles", nodeId=found["nodeId"], files=[str(path)])

    def test_shows_the_difference_of_a_topology_and_applies_it(self):
        self.log_in_as(ADMIN_TOKEN)
        self.addCleanup(lambda: self.log_in_as("esp_of_the_page"))
        self.open_panel("controls")
        old = json.loads(pathlib.Path(self.cluster.folder, "topology.json").read_text())
        new = json.loads(json.dumps(old))
        new["nodes"].append({"id": "spine9", "kind": "SWITCH", "role": "SPINE"})
        for leaf in range(4):
            new["links"].append({"a": f"leaf{leaf}", "b": "spine9", "gbps": old["links"][0]["gbps"]})
        self.give_file("broken.json", "{")
        self.page.wait("/refused/.test(document.querySelector('.outcome').textContent)")
        self.assertTrue(self.page.run("document.getElementById('confirm').disabled"))
        self.page.click("#cancel")
        self.give_file("same.json", json.dumps(old))
        self.page.wait("/the topology in force/.test(document.querySelector('.outcome').textContent)")
        self.assertTrue(self.page.run("document.getElementById('confirm').disabled"))
        self.page.click("#cancel")
        self.give_file("large.json", " " * (1 << 20) + "{}")
        self.page.wait("/1 MiB/.test(document.getElementById('toasts').textContent)")
        self.assertFalse(self.page.run("document.getElementById('dialog').open"))
        self.give_file("new.json", json.dumps(new))
        self.await_preview()
        text = self.page.text(".outcome")
        self.assertIn("5changes", text)
        self.assertIn("node spine9", text)
        self.assertEqual(len(self.cluster.get("topology")["links"]), len(old["links"]))
        self.fill("reason", "a fifth spine")
        self.confirm()
        self.cluster.wait(lambda: len(self.cluster.get("topology")["links"]) == len(new["links"]),
                          "the topology is in force")
        self.log_in(ADMIN_TOKEN)
        self.page.wait("document.getElementById('connection').textContent === 'live'")
        self.page.wait(f"document.getElementById('tab-links').textContent.includes('{len(new['links'])}')")
        self.page.wait("/9 switches in 2 tiers/.test(document.querySelector('.controls').textContent)")
        entry = next(one for one in reversed(self.cluster.get("audit")["audit"]) if one["reason"])
        self.assertEqual((entry["actor"], entry["reason"]), ("chief", "a fifth spine"))
        self.await_live()


if __name__ == "__main__":
    main()
