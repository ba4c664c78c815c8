#!/usr/bin/env python3
"""How well the page can be read: large fabrics, tiers and rails, filters; by keyboard, by screen
reader, in light and dark.

usage: reading_test.py CONTROLLER SIMULATED_HOSTS [unittest arguments]; exit code 77: no Chromium.
"""

import base64
import pathlib
import re
import urllib.parse

from cluster import PageCase, main
from fabrics import rails_in_pods

AUDIT = (pathlib.Path(__file__).parent / "accessibility.js").read_text()
PAGE = pathlib.Path(__file__).parents[2] / "controller/api/page"
HEADING = "document.querySelector('#details h2').textContent"


def script(name):
    """A script of the page with its imports, as an address."""
    text = (PAGE / f"{name}.js").read_text()
    text = re.sub(r'from "\./(\w+)\.js"', lambda found: f'from "{script(found[1])}"', text)
    return "data:text/javascript;base64," + base64.b64encode(text.encode()).decode()


class ReadingTest(PageCase):
    def open_large(self, query="?fold=none"):
        return self.open_other(query, spines=32, leaves=64, hosts_per_leaf=32)

    def click_in_picture(self, x, y):
        """At a part of the picture's width and height."""
        box = self.page.run("(({x, y, width, height}) => [x, y, width, height])("
                            "document.getElementById('fabric').getBoundingClientRect())")
        self.page.click_at(box[0] + x * box[2], box[1] + y * box[3])

    def find(self, text):
        self.page.run("document.getElementById('search').value = ''")
        self.page.run("document.getElementById('search').focus()")
        self.page.type(text)
        self.page.run("document.getElementById('search')"
                      ".dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter'}))")

    def faults(self):
        """What checks of names, roles, states and contrast find."""
        return self.page.run(AUDIT)

    def test_finds_what_is_searched_for_in_a_large_fabric(self):
        self.open_large()
        self.find("leaf40")
        self.page.wait(f"{HEADING} === 'leaf40'")
        # It is in the middle of a picture that is so large that a click meets it.
        self.page.run("document.activeElement.blur()")
        self.page.key("Escape")
        self.page.wait(f"{HEADING} === 'The whole fabric'")
        seen = set()
        for height in range(50, 100, 2):
            self.click_in_picture(0.5, height / 100)
            seen.add(self.page.run(HEADING))
        self.assertIn("leaf40", seen)
        self.find("leaf40--spine7")
        self.page.wait(f"{HEADING} === 'leaf40--spine7'")
        self.find("nosuch")
        self.page.wait("document.getElementById('found').textContent === 'nothing'")
        self.assertEqual(self.problems(), [])

    def test_goes_to_a_part_and_zooms_by_keyboard(self):
        self.open_large()
        self.page.run("""(() => {
          const choice = document.getElementById('groups');
          choice.value = '5';
          choice.dispatchEvent(new Event('change'));
        })()""")
        shown = self.page.run("document.getElementById('groups').selectedOptions[0].textContent")
        self.assertEqual(shown, "leaf40 – leaf47")
        self.page.run("document.getElementById('fabric').focus()")
        for key in ("+", "-", "0"):
            self.page.key(key)
        self.page.key("ArrowRight")
        self.page.wait(f"{HEADING} === 'leaf0'")
        self.assertEqual(self.problems(), [])

    def test_the_wheel_zooms_about_the_pointer(self):
        self.open_large()
        for height in range(50, 80):
            self.click_in_picture(0.3, height / 100)
            leaf = self.page.run(HEADING)
            if re.fullmatch(r"leaf\d+", leaf):
                break
        x, y, width, tall = self.page.run("(({x, y, width, height}) => [x, y, width, height])("
                                          "document.getElementById('fabric').getBoundingClientRect())")
        for _ in range(3):
            self.page.call("Input.dispatchMouseEvent", type="mouseWheel", x=x + 0.3 * width,
                           y=y + height / 100 * tall, deltaX=0, deltaY=-200)
        self.page.key("Escape")
        self.page.wait(f"{HEADING} === 'The whole fabric'")
        self.click_in_picture(0.3, height / 100)
        self.assertEqual(self.page.run(HEADING), leaf)
        # Its neighbour is no longer beside it.
        self.click_in_picture(0.3 + 1 / 64, height / 100)
        self.assertNotRegex(self.page.run(HEADING), f"leaf{int(leaf[4:]) + 1}$")

    def test_the_matrix_has_a_cell_for_each_link(self):
        large = self.open_large()
        large.post("links/fail?id=leaf63--spine31")
        self.page.key("x")
        self.page.wait("document.querySelector(\"[data-shape='matrix']\").ariaChecked === 'true'")
        self.cluster.wait(lambda: self.pixels_of("failed") > 20, "the failed link's cell")
        self.assertGreater(self.pixels_of("load-idle"), 10_000)
        self.click_in_picture(0.985, 0.975)
        self.page.wait(f"{HEADING} === 'leaf63--spine31'")
        self.page.wait("/failed/.test(document.getElementById('details').textContent)")
        self.page.key("x")
        self.page.wait("document.querySelector(\"[data-shape='map']\").ariaChecked === 'true'")
        self.assertEqual(self.problems(), [])

    def test_orders_tiers_pods_and_rails(self):
        self.open_other(topology_text=rails_in_pods())
        self.assertEqual(self.page.run("[...document.getElementById('groups').options]"
                                       ".map(one => one.textContent)"), ["Go to…", "pod 0", "pod 1"])
        # From the left: the rails of each pod in their order, though the file has them otherwise.
        self.page.key("f")
        seen = []
        for _ in range(8):
            self.page.key("ArrowRight")
            self.page.wait(f"{HEADING} !== {seen[-1]!r}" if seen else f"{HEADING} !== 'The whole fabric'")
            seen.append(self.page.run(HEADING))
        self.assertEqual(seen, [f"p{pod}-leaf{rail}" for pod in range(2) for rail in range(4)])
        self.assertIn("Rail3", self.page.text("#details"))
        self.page.key("ArrowUp")
        self.page.wait(f"{HEADING}.includes('agg')")
        self.page.key("ArrowUp")
        self.page.wait(f"{HEADING}.startsWith('core')")
        self.page.key("x")
        self.cluster.wait(lambda: self.pixels_of("load-idle") > 5_000, "two matrices")
        self.assertEqual(self.problems(), [])

    def folded(self):
        """The names of the folded groups by the address of the page."""
        query = urllib.parse.parse_qs(urllib.parse.urlparse(self.page.run("location.href")).query)
        return query.get("folded", query.get("fold", []))

    def test_a_large_fabric_is_folded_at_first(self):
        large = self.open_large(query="")
        self.assertEqual(self.folded(), [])
        self.page.wait("document.getElementById('fold-all').textContent === 'Unfold all'")
        large.post("links/fail?id=leaf9--spine2&reason=optics")
        self.cluster.wait(lambda: self.pixels_of("failed") > 20, "the bundle of the failed link")
        self.page.key("f")
        for _ in range(2):
            self.page.key("ArrowRight")
        self.page.wait(f"{HEADING} === 'leaf8 – leaf15'")
        self.assertIn("Hosts256", self.page.text("#details"))
        self.find("leaf9--spine2")
        self.page.wait(f"{HEADING} === 'leaf9--spine2'")
        self.assertEqual(len(self.folded()), 7)
        self.assertNotIn("leaf8 – leaf15", self.folded())
        # The address shows the same again.
        self.page.reload()
        self.page.wait("document.body.dataset.firstPicture > 0 &&"
                       " document.getElementById('fold-all').textContent === 'Fold all'")
        self.assertEqual(len(self.folded()), 7)
        self.page.run("document.getElementById('fabric').focus()")
        for _ in range(2):
            self.page.key("ArrowRight")
        self.page.wait(f"{HEADING} === 'leaf8'")
        self.page.click("#details [data-action=fold]")
        self.page.wait("document.getElementById('fold-all').textContent === 'Unfold all'")
        self.assertEqual(self.folded(), ["all"])
        self.page.click("#fold-all")
        self.assertEqual(self.folded(), ["none"])
        self.assertEqual(self.problems(), [])

    def test_folds_pods_to_sums_and_to_their_worst(self):
        def change_two_links(other):
            other.post("links/fail?id=p1-agg0--core1&reason=optics")
            other.post("links/drain?id=p1-leaf2--p1-agg1")

        self.open_other(prepare=change_two_links, topology_text=rails_in_pods(cores=3))
        self.page.wait("document.getElementById('figure-links').textContent.startsWith('2')")
        self.page.key("g")
        self.assertEqual(self.folded(), ["all"])
        self.page.key("f")
        self.page.key("ArrowRight")
        self.page.wait(f"{HEADING} === 'pod 0'")
        self.assertRegex(self.page.text("#details"), "^pod 0up folded")
        self.page.key("ArrowRight")
        self.page.wait(f"{HEADING} === 'pod 1'")
        # Six switches, four boxes with four NICs each, and all links among them.
        self.assertRegex(self.page.text("#details"), "^pod 1drained folded.*Switches6Hosts16Links24")
        self.assertIn("p1-leaf2--p1-agg1", self.page.text("#details"))
        seen = {}
        for _ in range(3):
            self.page.key("l")
            seen[self.page.run(HEADING)] = self.page.text("#details")
            self.page.key("l")
            self.page.wait(f"{HEADING} === 'pod 1'")
        self.assertEqual(set(seen), {f"pod 1 – core{number}" for number in range(3)})
        self.assertRegex(seen["pod 1 – core1"], r"failed 2 links.*Speed800 Gbit/s.*Not up1 of 2"
                                                r".*first.*p1-agg0--core1 opticsfailed.*p1-agg1--core1")
        self.assertRegex(seen["pod 1 – core0"], r"up 2 links.*Speed800 Gbit/s")
        self.page.key("Enter")
        self.assertEqual(self.folded(), ["pod 0"])
        self.assertEqual(self.faults(), [])
        self.assertEqual(self.problems(), [])

    def test_fits_small_screens(self):
        self.addCleanup(self.page.call, "Emulation.setDeviceMetricsOverride", width=1440,
                        height=900, deviceScaleFactor=1, mobile=False)
        for width, height in ((390, 844), (820, 1180), (1280, 720)):
            self.page.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                           deviceScaleFactor=1, mobile=False)
            self.page.wait(f"innerWidth === {width}")
            self.assertLessEqual(self.page.run("document.documentElement.scrollWidth"), width)
            picture = "document.getElementById('fabric').getBoundingClientRect().height"
            self.assertGreater(self.page.run(picture), 190)

    def test_says_what_tests_of_links_found_and_leads_there(self):
        self.page.open("about:blank")
        shown = self.page.run(f'Promise.all([import("{script("causes")}"), import("{script("model")}")])' + """.then(([causes, { Model }]) => {
          const sought = [];
          const app = { seek: (panel, wanted) => sought.push([panel, wanted]) };
          const health_reasons = [
            "2 links lose packets", "link leaf1>spine1 is being tested, as it may lose packets",
            "flows of 1 host repeat packets, and no fault explains it yet (most on leaf0>spine3)",
            "one of the links leaf0>spine1, spine1>leaf2 loses packets, and no path tells them apart",
            "NIC h3 or its host loses packets",
            "switches see 1 flow on other links than decided (espalier flows --attested ELSEWHERE)"];
          for (const reason of causes.healthReasons(app, { health_reasons })) reason.querySelector("button").click();
          const model = new Model();
          model.setTopology({ name: "", nodes: [{ id: "a", tier: 0 }, { id: "b", tier: 1 }], links: [{ id: "a--b", a: "a", b: "b", bps: "1" }] });
          const link = { id: "a--b", state: "LOSSY", reason: "", why: { words: "a>b lost 31 of 400 probes" }, load_a_to_b: "0", load_b_to_a: "0" };
          model.apply({ change: "1", links: [link] }, false);
          return { sought, reason: causes.linkButton({}, model.links[0]).textContent, first: causes.notUp(model.links)[0].id };
        })""")
        self.assertEqual(shown["sought"], [
            ["Links", {"state": "LOSSY"}], ["Links", {"text": "leaf1 spine1"}], ["Links", {"text": "leaf0 spine3"}],
            ["Events", {"text": "links undecided"}], ["Links", {"text": "h3"}],
            ["Flows", {"seen": "ELSEWHERE"}]])
        self.assertEqual(shown["reason"], "a--b a>b lost 31 of 400 probeslossy")
        self.assertEqual(shown["first"], "a--b")

    def test_filters_links(self):
        self.open_panel("links")
        names = "[...document.querySelectorAll('.line:not([hidden])')].map(line => line.children[0].textContent)"
        self.page.wait(f"{names}.length > 0 && {names}.every(name => name.startsWith('leaf'))")
        self.page.click("#link-switches")
        self.page.wait(f"{names}.some(name => name.startsWith('h'))")
        self.page.run("document.getElementById('link-filter').focus()")
        self.page.type("spine2 leaf3")
        self.page.wait(f"{names}.join() === 'leaf3--spine2'")
        self.choose("link-state", "'NOT_UP'")
        self.page.wait(f"{names}.length === 0")
        self.page.wait("/No link is like that/.test(document.getElementById('panel').textContent)")
        self.cluster.post("links/drain?id=leaf3--spine2")
        self.addCleanup(self.cluster.post, "links/undrain?id=leaf3--spine2")
        self.page.wait(f"{names}.join() === 'leaf3--spine2'")
        self.choose("link-state", "'DOWN'")
        self.page.wait(f"{names}.length === 0")

    def test_has_names_roles_and_contrast_everywhere(self):
        self.cluster.post("links/fail?id=leaf1--spine2")
        self.addCleanup(self.cluster.post, "links/restore?id=leaf1--spine2")
        self.cluster.post("links/drain?id=leaf2--spine2")
        self.addCleanup(self.cluster.post, "links/undrain?id=leaf2--spine2")
        for dark in (False, True):
            self.page.set_dark(dark)
            for panel in ("jobs", "flows", "links", "agents", "path-map", "trees", "predictions",
                          "events", "intents-and-audit", "advice", "telemetry", "discovery", "controls"):
                self.open_panel(panel)
                self.page.wait("document.getElementById('panel').textContent.length > 20")
                self.assertEqual(self.faults(), [], f"{panel}, dark: {dark}")
            self.pick_link("leaf1--spine2")
            self.assertEqual(self.faults(), [])
            self.move_to(1)
            self.page.wait("document.body.classList.contains('past')")
            self.assertEqual(self.faults(), [])
            self.page.key("n")
            self.page.wait("!document.body.classList.contains('past')")
            self.page.key("?")
            self.page.wait("document.getElementById('dialog').open")
            self.assertEqual(self.faults(), [])
            self.page.run("document.getElementById('dialog').close()")
            self.open_panel("controls")
            self.page.wait("document.querySelector('[data-control=window-add]') !== null")
            for control in ("steering-off", "steering-part", "window-add"):
                self.page.run(f"document.querySelector('[data-control={control}]').click()")
                self.page.wait("document.getElementById('dialog').open")
                self.assertEqual(self.faults(), [], f"{control}, dark: {dark}")
                self.page.run("document.getElementById('dialog').close()")

    def test_the_checks_find_faults(self):
        self.page.run("""(() => {
          const bad = document.createElement('div');
          bad.innerHTML = '<button></button><p style="color: #999; background: #aaa">pale</p>'
            + '<input type="text"><span role="checkbox">x</span><i id="tip"></i>'
            + '<b aria-labelledby="nowhere"></b><img src="/icon.svg">';
          document.querySelector('main').append(bad);
          for (const one of bad.querySelectorAll('p')) one.style = 'color: #999; background: #aaa';
        })()""")
        found = "\n".join(self.faults())
        for what in ("no name: button", "contrast", "no name: input", "aria-checked", "twice",
                     "nowhere", "no alt"):
            self.assertIn(what, found)

    def test_everything_can_be_reached_by_the_keyboard(self):
        self.open_panel("links")
        reached = set()
        for _ in range(60):
            self.page.call("Input.dispatchKeyEvent", type="rawKeyDown", key="Tab",
                           windowsVirtualKeyCode=9)
            self.page.call("Input.dispatchKeyEvent", type="keyUp", key="Tab", windowsVirtualKeyCode=9)
            reached.add(self.page.run("document.activeElement.id || document.activeElement.className"))
        for wanted in ("links-off", "log-out", "recompute", "theme", "help", "search", "zoom-in", "fabric",
                       "time-slider", "details", "tab-links", "link-filter", "link-state",
                       "link-switches", "body"):
            self.assertIn(wanted, reached)


if __name__ == "__main__":
    main()
