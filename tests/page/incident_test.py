#!/usr/bin/env python3
"""How many clicks it takes to find the causes of an incident on the page.

usage: incident_test.py CONTROLLER SIMULATED_HOSTS [unittest arguments]; exit code 77: no Chromium.
"""

import incident
from cluster import PageCase, main


class IncidentTest(PageCase):
    SHAPE = {"first_spine": "spine0", "first_job": "job-0"}

    def open_page(self):
        self.page.open("about:blank")
        self.page.open(self.cluster.address + "/")
        self.await_live()

    def test_the_causes_of_an_incident_are_few_clicks_away(self):
        incident.begin(self.cluster)
        self.addCleanup(incident.end, self.cluster)
        clicks = incident.find_causes(self.page, self.open_page)
        for cause, number in clicks.items():
            print(f"{cause}: {number} click{'' if number == 1 else 's'}")
            self.assertLessEqual(number, incident.MOST_CLICKS, cause)
        self.assertEqual(self.problems(), [])


if __name__ == "__main__":
    main()
