"""A controller with simulated hosts for tests of the page, and what the tests ask of it."""

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
import urllib.request

from chromium import Browser, find_chromium

HOSTILE_JOB = "<img src=x onerror=\"document.title='owned'\">"
HOSTILE_SPINE = "</script><script>document.title='owned'</script>"
TOKEN = "esp_of_the_page"
VIEWER_TOKEN = "esp_of_a_guest"
ADMIN_TOKEN = "esp_of_the_chief"
BINARIES = []  # the controller and simulated_hosts


class Cluster:
    """A controller and, where there are jobs, simulated hosts."""

    def __init__(self, controller, hosts, spines=4, leaves=4, hosts_per_leaf=4, jobs=2,
                 topology_text=None, first_spine=HOSTILE_SPINE, first_job=HOSTILE_JOB):
        self._controller = controller
        self.folder = tempfile.mkdtemp(prefix="espalier-page-")
        with socket.socket() as probe:  # a port that is free now
            probe.bind(("127.0.0.1", 0))
            self.address = f"http://127.0.0.1:{probe.getsockname()[1]}"
        topology = os.path.join(self.folder, "topology.json")
        shape = [f"--spines={spines}", f"--leaves={leaves}", f"--hosts-per-leaf={hosts_per_leaf}",
                 f"--first-spine={first_spine}"]
        if topology_text:
            with open(topology, "w") as file:
                file.write(topology_text)
        else:
            subprocess.run([hosts, *shape, f"--write-topology={topology}"], check=True)
        bus = f"ipc://{self.folder}/bus"
        with open(os.path.join(self.folder, "controller.conf"), "w") as file:
            file.write(f'topology_file: "{topology}"\nlisten: "{bus}"\nlog_level: "error"\n'
                       f'insecure_plaintext: true\nkey_folder: "{self.folder}"\n'
                       f'state_file: "{self.folder}/store.db"\n'
                       f'http: "{self.address.removeprefix("http://")}"\n')
        tokens = [{"name": name, "role": role, "made": "2026-11-21T12:00Z",
                   "sha256": hashlib.sha256(token.encode()).hexdigest()}
                  for name, role, token in (("page", "operator", TOKEN),
                                            ("guest", "viewer", VIEWER_TOKEN),
                                            ("chief", "admin", ADMIN_TOKEN))]
        with open(os.open(os.path.join(self.folder, "tokens"), os.O_CREAT | os.O_WRONLY, 0o600),
                  "w") as file:
            json.dump({"tokens": tokens}, file)
        self.process = None
        self.start_controller()
        self._hosts = None
        if jobs > 0:
            self._hosts = subprocess.Popen(
                [hosts, *shape, f"--controller={bus}", f"--jobs={jobs}", "--flows=2",
                 "--round-seconds=2", f"--first-job={first_job}"])

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


class PageCase(unittest.TestCase):
    """Tests with a browser on the page of a cluster with two jobs."""

    SHAPE = {}  # of the cluster

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(*BINARIES, **cls.SHAPE)
        cls.addClassCleanup(cls.cluster.close)
        cls.cluster.wait(lambda: len(cls.cluster.get("jobs")["jobs"]) == 2, "both jobs run")
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.__exit__)

    def open_other(self, query="", prepare=lambda other: None, **shape):
        """Another cluster, without hosts, and the page of it. The page leaves it before it ends."""
        other = Cluster(*BINARIES, jobs=0, **shape)
        self.addCleanup(other.close)
        self.addCleanup(self.page.open, "about:blank")
        other.wait(lambda: other.get("status"), "it answers")
        prepare(other)
        self.page.open(f"{other.address}/{query}")
        self.log_in()
        self.page.wait("document.body.dataset.firstPicture > 0")
        return other

    def problems(self):
        """What the page met. That a flow has ended before the controller was asked about it is none
        (and is told late, where the machine is slow: perhaps to the next test), and neither is a
        request that was refused before the log-in, which may be answered after it."""
        return [problem for problem in self.page.problems
                if ("404" not in problem or "/flows/explain?" not in problem)
                and "status of 401" not in problem]

    def setUp(self):
        self.page = self.browser
        self.page.set_dark(False)
        self.page.open("about:blank")
        self.page.problems.clear()  # those of the last test, whose controller may have gone
        self.page.open(self.cluster.address + "/")
        self.log_in()
        self.await_live()

    def tearDown(self):
        if os.environ.get("ESPALIER_PAGE_PICTURES"):
            self.page.picture(os.path.join(os.environ["ESPALIER_PAGE_PICTURES"],
                                           f"{self._testMethodName}.png"))

    def log_in(self, token=TOKEN):
        """Gives the page a token where it asks for one."""
        live = "document.getElementById('connection').textContent === 'live'"
        asked = "document.getElementById('token') !== null && document.getElementById('dialog').open"
        # One question, as a page that loads again meanwhile answers none.
        if self.page.wait(f"{live} ? 'live' : {asked} ? 'asked' : ''") == "asked":
            self.page.run(f"document.getElementById('token').value = '{token}'")
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
        self.page.run("document.querySelector('.table .body').scrollTop = 0")
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

    def fill(self, field, text):
        """Types into an empty field."""
        self.page.run(f"document.getElementById('{field}').focus()")
        self.page.type(text)

    def log_in_as(self, token):
        self.page.click("#log-out")
        self.page.wait("document.getElementById('dialog').open"
                       " && document.getElementById('token') !== null")
        self.log_in(token)
        self.await_live()

    def choose(self, select, value):
        self.page.run(f"""(() => {{
          const select = document.getElementById('{select}');
          select.value = {value};
          select.dispatchEvent(new Event('input'));
          select.dispatchEvent(new Event('change'));
        }})()""")

    def pixels_of(self, colour):
        """How much of the picture has a colour of the style: planned edges have tree."""
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

    def move_to(self, back):
        """Moves the slider to so many seconds ago."""
        self.page.run(f"""(() => {{
          const slider = document.getElementById('time-slider');
          slider.value = Number(slider.max) - {back};
          slider.dispatchEvent(new Event('input'));
        }})()""")


def main():
    """Runs the tests of the calling file; its arguments are CONTROLLER SIMULATED_HOSTS [unittest
    arguments]."""
    if find_chromium() is None:
        print("skipped: there is no chromium here (deploy/setup installs it)")
        sys.exit(77)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    BINARIES.extend(sys.argv[1:3])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
