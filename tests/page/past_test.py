#!/usr/bin/env python3
"""The past on the operator's page: slider, chart, stale data; and who is logged in.

usage: past_test.py CONTROLLER SIMULATED_HOSTS [unittest arguments]; exit code 77: no Chromium.
"""

from chromium import Failure
from cluster import VIEWER_TOKEN, PageCase, main

LINK = "leaf1--spine2"


class PastTest(PageCase):
    def setUp(self):
        super().setUp()
        self.page.wait("!document.getElementById('time').hidden")

    def samples(self, path="history?from=-10m"):
        return self.cluster.get(path)["samples"]

    def await_samples(self, number, condition=lambda sample: True):
        """Until the last samples are such ones."""
        self.cluster.wait(lambda: len(self.samples()) >= number and all(
            condition(sample) for sample in self.samples()[-number:]), "samples")

    def await_samples_with_flows(self, number):
        """Until so many samples have flows: on a busy machine, the hosts have none for moments."""
        self.cluster.wait(lambda: sum(sample["flows"] > 0 for sample in self.samples()) >= number,
                          "samples with flows")

    def log_out(self):
        self.page.click("#log-out")
        self.page.wait("document.getElementById('dialog').open"
                       " && document.getElementById('token') !== null")

    def restore(self):
        self.cluster.post(f"links/restore?id={LINK}")

    def test_moves_to_a_moment_before_a_failure_and_back(self):
        self.await_samples(5, lambda sample: sample["links_not_up"] == 0)
        before = self.samples()[-3]["time"]
        self.cluster.post(f"links/fail?id={LINK}&reason=optics")
        self.addCleanup(self.restore)
        self.page.wait("document.getElementById('figure-links').textContent.startsWith('1')")
        self.cluster.wait(lambda: self.pixels_of("failed") > 50, "the failed link is drawn")
        self.await_samples(4, lambda sample: sample["links_not_up"] == 1)
        # To before it, by its time: the machine may be slow.
        now = self.cluster.get("history?from=-2s")["now"]
        back = self.page.run(f"(Date.parse('{now}') - Date.parse('{before}')) / 1000")
        self.move_to(back)
        self.page.wait("document.body.classList.contains('past')")
        self.page.wait("document.getElementById('figure-links').textContent === '0'")
        self.assertRegex(self.page.text("#past-text"), r"the past: .* \d\d:\d\d:\d\d UTC")
        self.cluster.wait(lambda: self.pixels_of("failed") == 0, "the map is that of the past")
        self.assertTrue(self.page.run("document.getElementById('recompute').disabled"))
        # The links of then: no state but up, and no button that acts.
        self.pick_link(LINK)
        self.assertNotIn("failed", self.page.text(".table .line:not([hidden])"))
        self.assertEqual(self.page.run("document.querySelectorAll('#details [data-action]').length"), 0)
        # What happens now does not change the past.
        self.cluster.post("links/fail?id=leaf2--spine3")
        self.addCleanup(self.cluster.post, "links/restore?id=leaf2--spine3")
        self.open_panel("events")
        self.page.run("window.updates = Number(document.body.dataset.updates)")
        self.page.wait("Number(document.body.dataset.updates) > window.updates + 3")
        self.assertEqual(self.page.text("#figure-links"), "0")
        self.assertNotIn("leaf2--spine3", self.page.text("#panel"))
        self.open_panel("agents")
        self.assertIn("the state of now", self.page.text(".now-note"))
        self.page.click("#to-now")
        self.page.wait("!document.body.classList.contains('past')")
        self.page.wait("document.getElementById('figure-links').textContent.startsWith('2')")
        self.assertTrue(self.page.run("document.getElementById('to-now').hidden"))
        self.assertEqual(self.page.run("document.querySelectorAll('.now-note').length"), 0)
        self.cluster.wait(lambda: self.pixels_of("failed") > 50, "the map is that of now")
        self.assertEqual(self.problems(), [])

    def test_shows_the_jobs_of_a_moment(self):
        self.await_samples_with_flows(5)
        self.open_panel("jobs")
        # A moment between the rounds of a job does not have that job, or has it without flows: another moment does.
        both = ("document.body.classList.contains('past') && document.querySelectorAll('.job').length === 2"
                " && [...document.querySelectorAll('.job')].every("
                "job => /on their path\\d+ of \\d+/.test(job.textContent))")
        flows = ("/Then/.test(document.getElementById('details').textContent) && "
                 "/Slowest flows(?!No flows)/.test(document.getElementById('details').textContent)")
        for back in range(2, 30):
            self.move_to(back)
            try:
                self.page.wait(both, seconds=2)
                # The flows of now would mark links of now on the map of then.
                self.page.click(".job")
                self.page.wait(flows, seconds=2)
                break
            except Failure:
                self.page.run("document.activeElement.blur()")
                self.page.key("Escape")
                self.assertLess(back, 29, "no moment has both jobs, the first one with flows")
        self.page.wait("document.getElementById('past-text').textContent.includes("
                       "document.getElementById('time-text').textContent)")
        self.page.key("n")
        self.page.wait("!document.body.classList.contains('past')")

    def test_shows_the_slowest_flows_of_a_moment(self):
        self.await_samples_with_flows(5)
        self.open_panel("flows")
        flows = ("document.body.classList.contains('past') &&"
                 " document.querySelector('#panel .line:not([hidden])') !== null")
        for back in range(2, 30):
            self.move_to(back)
            try:
                self.page.wait(flows, seconds=2)
                break
            except Failure:
                self.assertLess(back, 29, "no moment has flows")
        self.assertRegex(self.page.text("#panel .filter"), r"\d+ flows?: the slowest of those that sent then")
        names = self.page.run("[...document.querySelectorAll('#panel .line:not([hidden])')]"
                              ".map(line => line.children[0].textContent)")
        self.assertLessEqual(len(names), 16)
        self.assertEqual(len(set(names)), len(names))
        cells = self.page.run("[...document.querySelector('#panel .line:not([hidden])').children]"
                              ".map(cell => cell.textContent)")
        self.assertRegex(cells[0], r"^h\d+ → h\d+:\d+$")
        self.page.run("document.querySelector('#panel .line:not([hidden])').click()")
        self.page.wait("/Then/.test(document.getElementById('details').textContent)")
        # Its links are those of its path then: from host to host over a spine.
        links = self.page.run("[...document.querySelectorAll('#details .link')].map(one => one.textContent)")
        self.assertEqual(len(links), 4, links)
        self.assertEqual(sum(link.startswith("h") for link in links), 2, links)
        self.page.key("n")
        self.page.wait("!document.body.classList.contains('past')")
        self.assertEqual(self.problems(), [])

    def test_draws_what_happened(self):
        self.cluster.post(f"links/fail?id={LINK}")
        self.addCleanup(self.restore)
        self.cluster.wait(lambda: any(sample["failures"] for sample in self.samples()), "a mark")
        self.cluster.wait(lambda: any(sample["rounds"] for sample in self.samples()), "a round")
        for mark in ("path.failure", "path.action", ".rounds", "polygon.total", "polyline.load"):
            self.page.wait(f"document.querySelector('#time-chart {mark}') !== null")
        self.page.wait("/[1-9]\\d* rounds, [1-9]\\d* failures?, [1-9]/.test("
                       "document.getElementById('time-chart').ariaLabel)")
        # The link's own past, beside the picture.
        self.pick_link(LINK)
        self.page.wait("document.querySelector('#details .spark polyline') !== null")
        self.page.wait("document.querySelector('#details .spark .off') !== null")
        self.assertEqual(self.problems(), [])

    def test_the_keyboard_chooses_a_moment(self):
        self.await_samples(6)
        self.page.wait("document.querySelector('#time-chart polygon') !== null")
        self.page.key("h")
        self.assertEqual(self.page.run("document.activeElement.id"), "time-slider")
        for _ in range(3):
            self.page.call("Input.dispatchKeyEvent", type="rawKeyDown", key="ArrowLeft",
                           windowsVirtualKeyCode=37)
            self.page.call("Input.dispatchKeyEvent", type="keyUp", key="ArrowLeft",
                           windowsVirtualKeyCode=37)
        self.page.wait("document.body.classList.contains('past')")
        self.assertRegex(self.page.run("document.getElementById('time-slider')"
                                       ".getAttribute('aria-valuetext')"), r"\d\d:\d\d:\d\d UTC")
        self.page.call("Input.dispatchKeyEvent", type="rawKeyDown", key="End",
                       windowsVirtualKeyCode=35)
        self.page.wait("!document.body.classList.contains('past')")
        self.assertEqual(self.page.text("#time-text"), "Now")

    def test_other_spans(self):
        for span in (7200, 86400, 600):
            self.page.click(f"[data-span='{span}']")
            self.page.wait(f"document.querySelector(\"[data-span='{span}']\").ariaChecked === 'true'")
        self.page.wait("document.querySelector('#time-chart polygon') !== null")
        self.assertEqual(self.problems(), [])

    def test_a_moment_before_the_history_is_refused_in_words(self):
        self.page.run("""fetch('/api/v1/history/moment?time=2020-01-01T00:00Z')
          .then((answer) => answer.json()).then((body) => { window.answer = body.error.message; })""")
        self.page.wait("/the history begins at/.test(window.answer ?? '')")

    def test_stale_data_is_dimmed_and_says_since_when(self):
        opacity = "Number(getComputedStyle(document.querySelector('main')).opacity)"
        self.assertEqual(self.page.run(opacity), 1)
        self.cluster.kill_controller()
        self.page.wait("document.body.classList.contains('stale')")
        self.assertLess(self.page.run(opacity), 0.8)
        self.assertRegex(self.page.text("#connection"), r"since \d\d:\d\d:\d\d UTC")
        self.assertRegex(self.page.text("#trouble"), r"the state of \d\d:\d\d:\d\d UTC")
        self.cluster.start_controller()
        self.log_in()
        self.await_live()
        self.page.wait("!document.body.classList.contains('stale')")

    def test_who_is_logged_in_and_out(self):
        self.page.wait("!document.getElementById('session').hidden")
        self.assertIn("page operator", self.page.text("#session"))
        self.log_out()
        self.log_in(VIEWER_TOKEN)
        self.await_live()
        self.page.wait("document.getElementById('session').textContent.includes('guest viewer')")
        self.page.wait("document.getElementById('recompute').disabled")
        self.pick_link(LINK)
        self.page.wait("/takes the role operator/.test(document.getElementById('details').textContent)")
        self.assertEqual(self.page.run("document.querySelectorAll('#details [data-action]').length"), 0)
        self.log_out()
        self.log_in()
        self.await_live()

    def test_shows_no_times_for_developers(self):
        self.assertNotRegex(self.page.run("document.body.innerText"), r"(?i)first picture|drawn in|\d ms\b.*drawn")


if __name__ == "__main__":
    main()
