"""An incident on the operator's page: a job is slow, as a far link is dead, a spine is drained and a
feed went silent. Finds each cause as an operator does, and counts the clicks."""

import json

FAR_LINK = "leaf1--spine1"
MOST_CLICKS = 3


class Hands:
    """Clicks on what is named by its text, and counts."""

    def __init__(self, page):
        self.page = page
        self.clicks = 0

    def click(self, selector, text=""):
        found = self.page.wait(f"""(() => {{
          const element = [...document.querySelectorAll({json.dumps(selector)})].find(
            one => one.checkVisibility() && one.textContent.includes({json.dumps(text)}));
          if (!element) return null;
          element.scrollIntoView({{block: 'nearest'}});
          const box = element.getBoundingClientRect();
          return [box.x + box.width / 2, box.y + box.height / 2];
        }})()""")
        self.page.click_at(*found)
        self.clicks += 1

    def sees(self, selector, *texts):
        """Waits until some visible element has all these texts."""
        self.page.wait(f"[...document.querySelectorAll({json.dumps(selector)})].some(one => "
                       f"one.checkVisibility() && {json.dumps(texts)}.every("
                       "text => one.textContent.includes(text)))")


def begin(cluster):
    """Until the controller knows all of it."""
    cluster.post("nodes/drain?id=spine3&reason=new+firmware")
    cluster.post("links/report", {"link": FAR_LINK, "up": False, "source": "gnmi"})
    cluster.post("links/load", {"source": "telemetry", "max_age_seconds": 1,
                                "loads": [{"link": "leaf0--spine0>spine0", "bps": 1000000}]})
    cluster.wait(lambda: any("silent" in reason for reason in cluster.get("status")["health_reasons"]),
                 "the feed is missed")
    cluster.wait(lambda: cluster.state_of(FAR_LINK) == "DOWN", "the link is taken as dead")


def end(cluster):
    cluster.post("links/report", {"link": FAR_LINK, "up": True, "source": "gnmi"})
    cluster.post("nodes/undrain?id=spine3")


def which_job_is_slow(hands):
    """All jobs with their time against the ideal are there at once; a click shows what they lack."""
    hands.sees(".job", "job-1", "ideal")
    hands.click(".job", "job-1")
    hands.sees("#details", "Not up at its leaves", FAR_LINK)


def where_is_the_dead_link(hands):
    """The health names it; the link says since when, and who says so."""
    hands.click("#details [data-cause]", "is down")
    hands.sees(".line", FAR_LINK, "failed")
    hands.click(".line", FAR_LINK)
    hands.sees("#details", "What happened", "gnmi")


def who_drained_the_spine(hands):
    hands.click("#links-off")
    hands.sees(".line", "spine3", "drained", "new firmware")


def which_feed_is_silent(hands):
    hands.click("#details [data-cause]", "silent")
    hands.sees(".line", "background feed silent", "telemetry")


CAUSES = (which_job_is_slow, where_is_the_dead_link, who_drained_the_spine, which_feed_is_silent)


def find_causes(page, open_page):
    """Clicks by cause; open_page() opens the page as one who has just been called."""
    clicks = {}
    for cause in CAUSES:
        open_page()
        hands = Hands(page)
        cause(hands)
        clicks[cause.__name__.replace("_", " ")] = hands.clicks
    return clicks
