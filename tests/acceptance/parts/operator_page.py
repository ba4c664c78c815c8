"""What a new user's review said of the operator's page, and how it is now, in a headless browser on a controller with
simulated hosts; and the clicks that find the causes of an incident.

Each row has what was said, what happened before, and a function that looks at the page now: it returns what it sees and
whether that is mended. A row takes back what it does.
"""

import pathlib
import re
import sys
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/page"))
import incident  # noqa: E402
from chromium import Failure, find_chromium  # noqa: E402
from cluster import BINARIES, TOKEN, VIEWER_TOKEN, Browser, Cluster, PageCase  # noqa: E402

FOREST = {"name": "sharded", "ranks": ["h0", "h5", "h10", "h15"]}


class Hands(PageCase):
    """The hands of the page's tests."""

    def runTest(self):
        """Is none."""

    def __init__(self, cluster, browser):
        super().__init__()
        self.cluster, self.page = cluster, browser

    def open(self, query=""):
        self.page.open("about:blank")
        self.page.open(f"{self.cluster.address}/{query}")
        self.log_in()
        self.page.wait("document.body.dataset.firstPicture > 0")
        self.page.wait("!document.getElementById('session').hidden")

    def is_true(self, expression, seconds=20):
        try:
            return bool(self.page.wait(expression, seconds))
        except Failure:
            return False

    def style(self, selector, name):
        return self.page.run(f"getComputedStyle(document.querySelector('{selector}')).{name}")

    def await_forest(self):
        self.cluster.post("jobs/start", FOREST)
        self.cluster.wait(lambda: (self.cluster.forest() or {}).get("status") == "READY", "a plan")

    def end_forest(self):
        self.cluster.post(f"jobs/stop?id={FOREST['name']}")
        self.cluster.wait(lambda: self.cluster.forest() is None, "it ends")

    def preview(self):
        """The text of a dialog once its dry run has answered."""
        self.page.wait("document.getElementById('dialog').open && !document.getElementById('confirm').disabled")
        text = self.page.text("#dialog .outcome")
        self.page.click("#cancel")
        return text


def found(pattern, text):
    match = re.search(pattern, text)
    return match[0] if match else f"not: {text[:60]}"


def drained_colour(hands):
    hands.cluster.post("nodes/drain?id=spine3&reason=optics")
    hands.open_panel("links")
    hands.page.wait("document.querySelector('.tag.drained') !== null")
    pill = hands.style(".tag.drained", "color")
    line = hands.page.run("(() => { const one = document.createElement('i'); one.style.color = 'var(--drained)';"
                          " document.body.append(one); const seen = getComputedStyle(one).color; one.remove(); return seen; })()")
    hands.cluster.post("nodes/undrain?id=spine3")
    return f"line {line}, pill {pill}", line == pill


def cut_cells(hands, panel, column):
    """How many cells of a column are shorter than their text."""
    hands.open_panel(panel)
    hands.page.wait("document.querySelector('#panel .line:not([hidden])') !== null")
    return hands.page.run("[...document.querySelectorAll('#panel .line:not([hidden])')].filter(line => line.children"
                          f"[{column}].scrollWidth > line.children[{column}].clientWidth).length")


def audit_times(hands):
    cut = cut_cells(hands, "intents-and-audit", 0)
    return f"{cut} of the times are cut", cut == 0


def forest_flow_names(hands):
    hands.await_forest()
    hands.open_panel("trees")
    hands.page.wait("document.querySelectorAll('.split .line:not([hidden])').length > 1")
    rows = hands.page.run("[...document.querySelectorAll('.split .line:not([hidden])')].map(line =>"
                          " [...line.children].map(cell => cell.textContent).join())")
    cut = cut_cells(hands, "flows", 0)
    hands.end_forest()
    return f"{len(rows)} rows, {len(set(rows))} different; {cut} flow names cut", len(set(rows)) == len(rows) and cut == 0


def room_for_the_map(hands):
    small = hands.page.run("document.getElementById('fabric').getBoundingClientRect().height")
    hands.page.click("#whole-screen")
    hands.page.wait("document.body.classList.contains('whole')")
    large = hands.page.run("document.getElementById('fabric').getBoundingClientRect().height")
    hands.page.click("#whole-screen")
    return f"{small:.0f} pixels high, {large:.0f} on the whole screen", large > 1.5 * small


def developers_figures(hands):
    is_shown = hands.page.run("/first picture|drawn in/i.test(document.body.innerText)")
    return "shown" if is_shown else "not shown", not is_shown


def map_and_header(hands):
    hands.await_forest()
    for _ in range(20):  # flows come and go between the two answers
        loads = [load_of(link[side]) for link in hands.cluster.get("links")["links"]
                 for side in ("load_a_to_b", "load_b_to_a")]
        header = hands.cluster.get("status")["max_load"]
        if abs(max(loads) - load_of(header)) < 1e-9:
            break
    hands.end_forest()
    return f"links up to {max(loads):g}, header {header}", abs(max(loads) - load_of(header)) < 1e-9


def load_of(text):
    above, _, below = str(text).partition("/")
    return float(above) / float(below or 1)


def legend(hands):
    text = hands.page.text("#legend")
    return text, "unavoidable: up to" in text and "avoidable: up to" in text


def orange_jobs(hands):
    hands.open_panel("jobs")
    hands.page.wait("document.querySelector('.job') !== null")
    orange = hands.page.run("document.querySelectorAll('.job .tag.avoidable').length")
    status = hands.cluster.get("status")
    return f"{orange} jobs orange, assignment optimal: {status['optimal']}", orange == 0 or not status["optimal"]


def past(hands):
    hands.cluster.wait(lambda: len(hands.cluster.get("history?from=-10m")["samples"]) > 4, "samples")
    hands.page.wait("!document.getElementById('time').hidden")
    hands.move_to(2)
    shown = hands.is_true("document.body.classList.contains('past')")
    hands.page.key("n")
    return "the slider shows the links of 2 s ago" if shown else "no past", shown


def series(hands):
    request = urllib.request.Request(f"{hands.cluster.address}/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        text = answer.read().decode()
    labels = [label for label in ("link=", "job=") if label in text]
    return f"labels {labels}", len(labels) == 2


def link_filters(hands):
    hands.open_panel("links")
    hands.page.wait("document.querySelector('.line:not([hidden])') !== null")
    first = hands.page.text("#panel .line:not([hidden])")
    hands.choose("link-state", "'NOT_UP'")
    empty = hands.is_true("/No link is like that/.test(document.getElementById('panel').textContent)")
    hands.choose("link-state", "'all'")
    return f"first {first[:14]}, filter for links not up", empty and first.startswith("leaf")


def session(hands):
    text = hands.page.text("#session")
    hands.log_in_as(VIEWER_TOKEN)
    title = hands.page.wait("document.getElementById('recompute').title")
    hands.log_in_as(TOKEN)
    return f"{text}; for a viewer: {title}", "Log out" in text and "role operator" in title


def cut_off(hands):
    for number in range(3):
        hands.cluster.post(f"nodes/drain?id=spine{number}")
    hands.open()
    hands.page.run("document.getElementById('search').focus()")
    hands.page.type("spine3")
    hands.page.run("document.getElementById('search').dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter'}))")
    hands.page.wait("document.querySelector('#details [data-action=drain]') !== null")
    text = ""
    for _ in range(20):  # until a round of the jobs runs
        hands.page.click("#details [data-action=drain]")
        text = hands.preview()
        if "without any path" in text:
            break
    for number in range(3):
        hands.cluster.post(f"nodes/undrain?id=spine{number}")
    return found(r"\d+ flows? without any path", text), "without any path" in text and "no assignment has less" not in text


def forests_in_preview(hands):
    hands.await_forest()
    edge = next(edge for edge in hands.cluster.get(f"forests/plan?job={FOREST['name']}")["edges"] if edge["via"])
    hands.open_panel("links")
    hands.page.run("document.getElementById('link-filter').focus()")
    hands.page.type(edge["via"])
    hands.page.wait("document.querySelector('#panel .line:not([hidden])') !== null")
    hands.page.click("#panel .line:not([hidden])")
    hands.page.wait("document.querySelector('#details [data-action=fail]') !== null")
    hands.page.click("#details [data-action=fail]")
    text = hands.preview()
    hands.end_forest()
    return found(r"\d+ forests? would be computed again", text), "would be computed again" in text


ROWS = [
    ("drained has one colour", "violet as a line, orange as a pill", drained_colour),
    ("times of the audit log are whole", "cut, beside 300 empty pixels", audit_times),
    ("the edges of a forest can be told apart", "ids cut to the same text in all rows", forest_flow_names),
    ("the map can have the whole screen", "cramped, while a third is empty", room_for_the_map),
    ("no figures for developers", "\"First picture after 573 ms\"", developers_figures),
    ("the map and the header have one load", "map 3/2, header 1 with an idle forest", map_and_header),
    ("blue and orange say what they mean", "\"load up to 2\"", legend),
    ("no orange where no load can be avoided", "\"1.24x ideal\" was orange for ever", orange_jobs),
    ("the page has a past", "no time axis", past),
    ("/metrics has series for links and jobs", "not one series with a label", series),
    ("links: filters, and host links not first", "neither filter, host links first", link_filters),
    ("who I am, log out, and which role it takes", "not on the screen", session),
    ("draining the last spine says what is cut off", "\"moved 16 flows\", optimal", cut_off),
    ("failing a link says which forests are planned again", "the dialog did not say so", forests_in_preview),
]


def check_large(browser, report):
    """64 leaves with 2,048 hosts and no agent."""
    cluster = Cluster(*BINARIES, spines=32, leaves=64, hosts_per_leaf=32, jobs=0, first_spine="spine0")
    try:
        cluster.wait(lambda: cluster.get("status"), "it answers")
        hands = Hands(cluster, browser)
        hands.open()
        agents = hands.page.text("#figure-agents")
        report.add("page: agents of the topology's hosts", agents, "before: 0 of 0", agents == "0 of 2,048")
        hands.open_panel("agents")
        rows = hands.page.wait("document.querySelector('#panel .table').getAttribute('aria-rowcount')")
        report.add("page: hosts without an agent are listed", f"{rows} rows", "before: none", rows == "2048")
        groups = hands.page.run("document.getElementById('groups').options.length - 1")
        button = hands.page.text("#fold-all")
        report.add("page: 64 leaves are folded to groups", f"{groups} groups, {button}", "before: a grey moire without names",
                   groups == 8 and button == "Unfold all")
    finally:
        cluster.close()


def check_lost_connection(hands, report):
    hands.open()
    hands.cluster.kill_controller()
    hands.page.wait("document.body.classList.contains('stale')")
    opacity = float(hands.style("main", "opacity"))
    text = hands.page.text("#connection")
    report.add("page: without a connection it is dimmed and says since when", f"{text}, opacity {opacity}",
               "before: full strength, local time", opacity < 0.8 and text.endswith("UTC"))


def check(binaries, report):
    """Adds a check for every row; what cannot be checked here is left out."""
    binaries = pathlib.Path(binaries)
    if find_chromium() is None:
        report.left_out.append("the rows of the page: no Chromium is installed (deploy/setup)")
        return
    BINARIES[:] = [binaries / "espalier-controller", binaries / "simulated_hosts"]
    cluster = Cluster(*BINARIES, first_spine="spine0", first_job="job-0")
    try:
        cluster.wait(lambda: len(cluster.get("jobs")["jobs"]) == 2, "both jobs run")
        with Browser() as browser:
            hands = Hands(cluster, browser)
            for what, before, look in ROWS:
                hands.open()
                value, is_mended = look(hands)
                report.add(f"page: {what}", value, f"before: {before}", is_mended)
            incident.begin(cluster)
            for cause, clicks in incident.find_causes(browser, hands.open).items():
                report.add(f"page, incident: {cause}", f"{clicks} click{'' if clicks == 1 else 's'}",
                           f"at most {incident.MOST_CLICKS}", clicks <= incident.MOST_CLICKS)
            incident.end(cluster)
            check_lost_connection(hands, report)
            check_large(browser, report)
    finally:
        cluster.close()
