#!/usr/bin/env python3
"""What was found out, on the operator's page: what steering would gain, what telemetry says, and where
the fabric differs from the topology.

usage: findings_test.py CONTROLLER SIMULATED_HOSTS [unittest arguments]; exit code 77: no Chromium.
"""

import json
import pathlib
import subprocess
import tempfile

from cluster import BINARIES, HOSTILE_JOB, Cluster, PageCase, main

HOSTILE_FEED = "<img src=x onerror=\"document.title='owned'\">"
LINES = "[...document.querySelectorAll('.line:not([hidden])')]"
CELLS = f"{LINES}.map(line => [...line.children].map(cell => cell.textContent))"
TIPS = f"{LINES}.map(line => [...line.children].map(cell => cell.title))"
HEADS = "[...document.querySelectorAll('.table .head button')].map(head => head.textContent)"
NO_ROUND_TRIPS = "weights by round-trip times are not modelled"


def scheme(name, seconds, low=None, high=None, reason=""):
    return {"scheme": name, "link_seconds": seconds, "burst_seconds": seconds,
            "low": seconds if low is None else low, "high": seconds if high is None else high,
            "reason": reason}


def unknown(name, reason):
    return {"scheme": name, "link_seconds": None, "burst_seconds": None, "low": None, "high": None,
            "reason": reason}


def schemes(seconds):
    return [scheme("PRESENT", seconds), scheme("ECMP", seconds, 0.9 * seconds, 1.2 * seconds),
            scheme("ECMP_4", seconds / 2), scheme("ECMP_16", seconds / 3),
            unknown("ROUND_TRIP_WEIGHTS", NO_ROUND_TRIPS), scheme("OPTIMUM", seconds / 4),
            unknown("ECMP_ONE_MORE_SPINE", "the spines differ")]


def advice(jobs, hours):
    """An answer of the controller about so many jobs."""
    figures = {"bursts": 5, "skipped": 1, "measured_seconds": 0.4, "standard_error": 0.01}
    return {"mode": "OBSERVE", "since": "2026-11-30T08:00:00.000000Z", "bursts": 5 * jobs,
            "bursts_since_start": 9 * jobs, "left_out": 3, "draws": 40, "jobs": [
                {**figures, "job": f"job{number}", "placing": "ECMP", "flows": 16.0,
                 "crossing_flows": 12.0, "known_paths": 0.25, "optimum_proven": True,
                 "schemes": schemes(0.4), "gpus": 128 if number == 0 else None,
                 "gpu_hours_gained": None, "gpu_hours_to_gain": 12.5 if number == 0 else None,
                 "hours": [{**figures, "begin": f"2026-11-30T{hour:02}:00:00.000000Z",
                            "ecmp_seconds": 0.4, "optimum_seconds": 0.1,
                            "schemes": schemes(0.4)} for hour in range(hours)]}
                for number in range(jobs)]}


class FindingsTest(PageCase):
    def answer_instead(self, answers):
        """Has the page get these answers instead of the controller's, until it is loaded again."""
        self.page.run("""((answers) => {
          const ask = window.fetch;
          window.fetch = (path, options) => {
            const answer = answers[String(path).split('?')[0]];
            return answer ? Promise.resolve(new Response(JSON.stringify(answer))) : ask(path, options);
          };
        })(""" + json.dumps(answers) + ")")

    def await_told(self, panel, text):
        self.page.wait(f"document.getElementById('{panel}-told')?.textContent.includes({json.dumps(text)})")

    def expect_no_markup(self):
        self.assertEqual(self.page.run("document.title"), "Espalier")
        self.assertEqual(self.page.run("document.querySelectorAll('img[src=x]').length"), 0)

    def test_shows_what_bursts_cost_and_would_cost(self):
        self.cluster.wait(lambda: len(self.cluster.get("advise")["jobs"]) >= 2, "bursts of both jobs")
        self.page.key("a")
        self.page.wait(f"{CELLS}.some(cells => cells[0] === {HOSTILE_JOB!r})"
                       .replace(repr(HOSTILE_JOB), json.dumps(HOSTILE_JOB)))
        heads = self.page.run(HEADS)
        for title in ("ECMP", "4 queue pairs", "16 queue pairs", "By round trips", "Espalier's paths",
                      "One more spine"):
            self.assertIn(title, heads)
        told = next(job for job in self.cluster.get("advise")["jobs"] if job["job"] == HOSTILE_JOB)
        self.assertTrue(all(one["burst_seconds"] is None for one in told["schemes"]
                            if one["scheme"] == "ROUND_TRIP_WEIGHTS"))
        for cells, tips in zip(self.page.run(CELLS), self.page.run(TIPS)):
            self.assertEqual(cells[heads.index("By round trips")], "unknown")
            self.assertIn(NO_ROUND_TRIPS, tips[heads.index("By round trips")])
            self.assertRegex(cells[heads.index("ECMP")], r"^[\d.]+ (\([\d.]+–[\d.]+\) )?(m?s|µs)")
        self.page.run(f"{LINES}.find(line => line.textContent.startsWith('<img')).click()")
        self.await_told("advice", NO_ROUND_TRIPS)
        self.page.wait("document.querySelector('#details h2').textContent.startsWith('<img')")
        self.page.click("#advice-hours")
        self.page.wait(f"{CELLS}.every(cells => /^\\d\\d-\\d\\d \\d\\d:00$/.test(cells[1]))"
                       f" && {LINES}.length > 0")
        self.page.run("document.getElementById('advice-filter').focus()")
        self.page.type("job-1")
        self.page.wait(f"{CELLS}.length > 0 && {CELLS}.every(cells => cells[0] === 'job-1')")
        self.choose("advice-span", "'1h'")
        self.page.wait(f"{CELLS}.length > 0 && {CELLS}.every(cells => cells[0] === 'job-1')")
        self.expect_no_markup()
        self.assertEqual(self.problems(), [])

    def test_an_unknown_figure_is_never_shown_as_zero(self):
        self.answer_instead({"/api/v1/advise": advice(2, 3)})
        self.page.key("a")
        self.await_told("advice", "The controller steers nothing")
        self.await_told("advice", "drawn 40 times")
        self.page.wait(f"{CELLS}.length === 2")
        self.assertEqual(self.page.run(CELLS)[0], [
            "job0", "whole time", "ECMP", "5", "400 ms", "400 (360–480) ms", "200 ms", "133 ms",
            "unknown", "100 ms", "unknown"])
        self.page.run(f"{LINES}[0].click()")
        for text in (NO_ROUND_TRIPS, "the spines differ", "between 360 ms and 480 ms", "−75.0 %",
                     "standard error 10.0 ms", "could be gained12.5", "75 % of its flows"):
            self.await_told("advice", text)
        self.page.run("document.querySelector('.table .body').focus()")
        self.page.key("ArrowDown")
        self.await_told("advice", "GPU-hours are unknown")
        self.assertNotRegex(self.page.text("#advice-told"), r"(?<![\d.])0 (m?s|%)")
        self.assertEqual(self.problems(), [])

    def test_a_long_ledger_breaks_no_layout(self):
        self.addCleanup(self.page.call, "Emulation.setDeviceMetricsOverride", width=1440,
                        height=900, deviceScaleFactor=1, mobile=False)
        self.answer_instead({"/api/v1/advise": advice(250, 16)})
        self.page.key("a")
        self.page.click("#advice-hours")
        self.page.wait("/4,000 hours/.test(document.querySelector('.filter').textContent)")
        self.assertLess(self.page.run(f"{LINES}.length"), 60)
        for width, height in ((390, 844), (820, 1180), (1440, 900)):
            self.page.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                           deviceScaleFactor=1, mobile=False)
            self.page.wait(f"innerWidth === {width}")
            for panel in ("advice", "telemetry", "discovery", "predictions"):
                self.page.run(f"document.getElementById('tab-{panel}').click()")
                self.page.wait("document.getElementById('panel').textContent.length > 20")
                self.assertLessEqual(self.page.run("document.documentElement.scrollWidth"), width, panel)

    def test_shows_feeds_and_what_they_report(self):
        self.page.key("e")
        link = "leaf1--spine2"
        self.cluster.post("links/report", {"link": link, "up": False, "source": "frr"})
        self.addCleanup(self.cluster.post, "links/report", {"link": link, "up": True, "source": "frr"})
        loads = {"source": HOSTILE_FEED, "only_background": True, "max_age_seconds": 2,
                 "loads": [{"link": "leaf0--spine2>spine2", "bps": 5e10}]}
        self.cluster.post("links/load", loads)
        self.cluster.post("flows/seen", {"source": "sflow", "window_seconds": 4, "flows": [
            {"source": "192.0.2.1", "destination": "192.0.2.2", "protocol": 17, "source_port": 50000,
             "destination_port": 4791, "queue_pair": 77, "bps": 9000000000, "error": 0.2,
             "links": [{"link": "leaf0--spine2>spine2", "samples": 9}]}]})
        self.page.wait(f"{CELLS}.some(cells => cells[0] === '{link}' && cells[1] === 'reported down'"
                       " && cells[4] === 'frr')")
        # The loads are soon too old, and then the feed is missed.
        self.await_told("telemetry", HOSTILE_FEED + " silent")
        self.await_told("telemetry", "sflow reports")
        self.page.run(f"{LINES}.find(line => line.textContent.startsWith('{link}')).click()")
        self.page.wait("/the feed frr reports it down/.test(document.getElementById('details').textContent)")
        self.page.click("[data-telemetry=flows]")
        self.page.wait(f"{CELLS}.some(cells => cells[0] === '192.0.2.1' && cells[3] === '77'"
                       " && cells[4] === '9.0 Gbit/s ± 20 %')")
        self.expect_no_markup()
        self.assertEqual(self.problems(), [])

    def test_names_the_traffic_that_a_feed_reports_of_a_link(self):
        stop = []

        def report():
            self.cluster.post("links/load", {
                "source": "gnmi", "only_background": True, "max_age_seconds": 60,
                "loads": [{"link": "leaf0--spine1>spine1", "bps": 0 if stop else 5e10}]})

        report()
        self.addCleanup(report)
        self.addCleanup(stop.append, True)
        self.pick_link("leaf0--spine1")
        self.page.wait("/Other traffic → spine1[\\d.]+ Gbit\\/s, by the feed gnmi/.test("
                       "document.getElementById('details').textContent)")
        self.page.key("e")
        self.page.wait(f"{CELLS}.some(cells => cells[0] === 'leaf0--spine1>spine1'"
                       " && cells[1] === 'background load' && cells[4] === 'gnmi')")
        self.assertEqual(self.problems(), [])

    def test_says_which_flows_switches_saw(self):
        self.open_panel("flows")
        self.page.wait(f"{CELLS}.length > 0 && {CELLS}.every(cells => cells[8] === 'not yet')")
        self.choose("flow-seen", "'ELSEWHERE'")
        self.page.wait(f"{LINES}.length === 0")
        self.choose("flow-seen", "'NOT_SEEN'")
        self.page.wait(f"{LINES}.length > 0")
        # A round may end at any moment, and its flows with it.
        self.page.wait(f"""(() => {{
          if (/Seen by switchesnot yet/.test(document.getElementById('details').textContent)) return true;
          {LINES}[0]?.click();
          return false;
        }})()""")
        self.page.key("e")
        self.await_told("telemetry", "As decided0Elsewhere0Not yet")

    def test_compares_the_discovered_fabric_with_the_topology(self):
        self.page.key("d")
        self.await_told("discovery", "has not been discovered since the controller started")
        self.cluster.post("topology/discover")
        self.await_told("discovery", "as the topology says")
        self.assertIn("Switches8", self.page.text("#discovery-told"))
        self.assertNotIn("differs from the topology", json.dumps(self.page.run(CELLS)))
        self.assertEqual(self.problems(), [])

    def test_names_cables_that_differ_from_the_topology(self):
        with tempfile.NamedTemporaryFile("r", suffix=".json") as file:
            subprocess.run([BINARIES[1], "--spines=4", "--leaves=4", "--hosts-per-leaf=4",
                            "--first-spine=spine0", f"--write-topology={file.name}"], check=True)
            topology = json.loads(pathlib.Path(file.name).read_text())
        ends = {link["id"]: link for link in topology["links"] if "id" in link} or {
            f"{link['a']}--{link['b']}": link for link in topology["links"]}
        one, other = ends["leaf0--spine1"], ends["leaf0--spine2"]
        one["b_address"], other["b_address"] = other["b_address"], one["b_address"]
        swapped = Cluster(*BINARIES, jobs=1, first_spine="spine0", first_job="train",
                          topology_text=json.dumps(topology))
        self.addCleanup(swapped.close)
        self.addCleanup(self.page.open, "about:blank")
        swapped.wait(lambda: swapped.get("status")["agents_connected"] == 16, "all agents")
        swapped.post("topology/discover")
        self.page.open(swapped.address + "/")
        self.log_in()
        self.page.wait("document.body.dataset.firstPicture > 0")
        self.page.key("d")
        self.page.wait(f"{CELLS}.some(cells => cells[0] === 'differs from the topology'"
                       " && /of the link leaf0--spine[12] is wired to/.test(cells[1]))")
        self.await_told("discovery", "difference")
        self.open_panel("events")
        self.page.wait(f"{CELLS}.some(cells => cells[1] === 'fabric differs')")


if __name__ == "__main__":
    main()
