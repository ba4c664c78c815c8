#!/usr/bin/env python3
"""Takes the pictures of the page that the documents show.

usage: pictures.py CONTROLLER SIMULATED_HOSTS FOLDER
"""

import pathlib
import sys
import time

from chromium import Browser
from cluster import BINARIES, Cluster, PageCase
from fabrics import rails_in_pods

LINK = "leaf1--spine2"


class Photographer(PageCase):
    """The hands of the tests, on a cluster of its own."""

    def runTest(self):
        """Is none."""

    def __init__(self, folder, cluster, browser):
        super().__init__()
        self.folder, self.cluster, self.page = folder, cluster, browser
        cluster.wait(lambda: cluster.get("status"), "it answers")
        browser.open("about:blank")
        browser.open(cluster.address + "/")
        self.log_in()
        browser.wait("document.body.dataset.firstPicture > 0")

    def take(self, name):
        # What was drawn last is a frame old; toasts fade.
        self.page.wait("document.getElementById('toasts').childElementCount === 0")
        time.sleep(1)
        self.page.picture(str(self.folder / f"page-{name}.png"))

    def wait_seconds(self, seconds):
        """Lets time pass: the history takes a sample each second."""
        time.sleep(seconds)


def of_jobs(folder, browser):
    cluster = Cluster(*BINARIES, first_spine="spine0", first_job="llm-pretrain")
    try:
        cluster.wait(lambda: all(job["rounds"] > 4 for job in cluster.get("jobs")["jobs"])
                     and len(cluster.get("jobs")["jobs"]) == 2, "rounds")
        hands = Photographer(folder, cluster, browser)
        hands.await_live()
        hands.open_panel("jobs")
        browser.run("document.querySelector('.job').click()")
        hands.wait_seconds(45)
        hands.take("light")
        hands.open_panel("predictions")
        hands.take("predictions")
        cluster.post("maintenance/add?kind=node&id=spine2&from=%2B2h&until=%2B4h&reason=new+firmware")
        cluster.post("maintenance/add?kind=link&id=leaf3--spine1&until=%2B1h&reason=optics")
        cluster.post("steering/off?host=h15&reason=trial&until=%2B1h")
        hands.open_panel("controls")
        hands.page.wait("/m2: link/.test(document.querySelector('.controls').textContent)")
        hands.take("controls")
        for window in ("m1", "m2"):
            cluster.post(f"maintenance/cancel?id={window}")
        cluster.post("steering/on?host=h15")
        cluster.post("nodes/drain?id=spine3&reason=optics")
        hands.wait_seconds(15)
        hands.pick_link(LINK)
        hands.act("fail")
        while browser.text("#dialog .sum b") == "0":  # between rounds nothing would move
            browser.click("#cancel")
            hands.act("fail")
        browser.run("document.getElementById('reason').focus()")
        browser.type("errors on the line")
        hands.take("action")
        hands.confirm()
        hands.wait_seconds(25)
        browser.set_dark(True)
        browser.key("Escape")
        hands.open_panel("flows")
        hands.take("dark")
        browser.set_dark(False)
        hands.open_panel("jobs")
        hands.move_to(10)
        browser.wait("document.body.classList.contains('past')")
        browser.run("document.querySelector('.job')?.click()")
        hands.wait_seconds(3)
        hands.take("past")
        browser.key("n")
        cluster.post(f"links/restore?id={LINK}")
        cluster.post("nodes/undrain?id=spine3")
        cluster.post("jobs/start", {"name": "sharded", "ranks": ["h0", "h5", "h10", "h15"]})
        cluster.wait(lambda: cluster.forest()["status"] == "READY", "a plan")
        hands.open_panel("trees")
        browser.wait("document.querySelector('.forest') !== null")
        browser.click(".forest")
        hands.choose("tree-root", 2)
        hands.choose("tree-one", 2)
        hands.take("trees")
    finally:
        cluster.close()


def of_a_large_fabric(folder, browser):
    cluster = Cluster(*BINARIES, spines=32, leaves=64, hosts_per_leaf=32, jobs=0,
                      first_spine="spine0")
    try:
        hands = Photographer(folder, cluster, browser)
        cluster.post(f"links/fail?id={LINK}")
        cluster.post("nodes/drain?id=spine5")
        # To the failed link, whose leaves unfold.
        browser.run("document.getElementById('search').focus()")
        browser.type(LINK)
        browser.run("document.getElementById('search')"
                    ".dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter'}))")
        browser.run("document.getElementById('zoom-fit').click()")
        hands.open_panel("links")
        hands.choose("link-state", "'NOT_UP'")
        hands.wait_seconds(5)
        hands.take("large")
        browser.key("x")
        hands.take("matrix")
    finally:
        cluster.close()


def of_three_tiers(folder, browser):
    cluster = Cluster(*BINARIES, jobs=0, topology_text=rails_in_pods(pods=4, boxes=8, cores=4))
    try:
        hands = Photographer(folder, cluster, browser)
        cluster.post("links/fail?id=p1-leaf2--p1-agg1")
        cluster.post("nodes/drain?id=core2")
        hands.wait_seconds(5)
        browser.key("f")
        for _ in range(3):
            browser.key("ArrowRight")
        hands.open_panel("links")
        hands.take("tiers")
    finally:
        cluster.close()


if __name__ == "__main__":
    BINARIES.extend(sys.argv[1:3])
    with Browser(1440, 900) as the_browser:
        for pictures in (of_jobs, of_a_large_fabric, of_three_tiers):
            pictures(pathlib.Path(sys.argv[3]), the_browser)
