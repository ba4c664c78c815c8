"""Drives a headless Chromium through the DevTools protocol; standard library only."""

import base64
import json
import os
import select
import shutil
import socket
import struct
import subprocess
import tempfile
import time
import urllib.request


SILENCE = 20  # seconds, after which an answer is not waited for any longer


class Failure(Exception):
    """What was awaited did not come, or the page itself failed."""


class WebSocket:
    """The client's side of RFC 6455, text messages only."""

    def __init__(self, host, port, path):
        self._socket = socket.create_connection((host, port), timeout=120)
        key = base64.b64encode(os.urandom(16)).decode()
        self._socket.sendall(
            (f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\n"
             f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
             "Sec-WebSocket-Version: 13\r\n\r\n").encode())
        self._buffer = b""
        while b"\r\n\r\n" not in self._buffer:
            self._buffer += self._socket.recv(65536)
        head, self._buffer = self._buffer.split(b"\r\n\r\n", 1)
        if b" 101 " not in head.split(b"\r\n")[0]:
            raise Failure(f"no websocket: {head[:80]!r}")

    def send(self, text):
        data = text.encode()
        mask = os.urandom(4)
        head = bytes([0x81])
        if len(data) < 126:
            head += bytes([0x80 | len(data)])
        elif len(data) < 65536:
            head += bytes([0x80 | 126]) + struct.pack(">H", len(data))
        else:
            head += bytes([0x80 | 127]) + struct.pack(">Q", len(data))
        padded = mask * (len(data) // 4 + 1)
        self._socket.sendall(head + mask + bytes(a ^ b for a, b in zip(data, padded)))

    def _take(self, size):
        while len(self._buffer) < size:
            piece = self._socket.recv(1 << 20)
            if not piece:
                raise Failure("the browser is gone")
            self._buffer += piece
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        return data

    def receive(self):
        """Fails where nothing comes: what is asked of a page that goes is never answered."""
        text = b""
        while True:
            if not self._buffer and not select.select([self._socket], [], [], SILENCE)[0]:
                raise Failure("the browser is silent")
            first, size = self._take(2)
            size &= 0x7F
            if size == 126:
                (size,) = struct.unpack(">H", self._take(2))
            elif size == 127:
                (size,) = struct.unpack(">Q", self._take(8))
            text += self._take(size)
            if first & 0x80:
                return text.decode()


class Browser:
    """One headless Chromium with one page. Ends with the `with` block."""

    def __init__(self, width=1440, height=900, dark=False):
        self._folder = tempfile.mkdtemp(prefix="espalier-chromium-")
        self._log = open(os.path.join(self._folder, "log"), "w+")
        self._process = subprocess.Popen(
            [find_chromium(), "--headless=new", "--no-sandbox", "--disable-gpu",
             "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions",
             "--disable-background-networking", "--disable-component-update", "--mute-audio",
             "--remote-debugging-port=0", f"--user-data-dir={self._folder}/profile",
             f"--window-size={width},{height}", "about:blank"],
            stdout=subprocess.DEVNULL, stderr=self._log, start_new_session=True)
        self._socket = self._connect()
        self._next = 0
        self.problems = []  # of the page: exceptions, errors in its console, refused content
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)
        self.set_dark(dark)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        self._log.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _connect(self):
        port_file = os.path.join(self._folder, "profile", "DevToolsActivePort")
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                self._log.seek(0)
                raise Failure("chromium ended: " + self._log.read()[-500:])
            try:
                with open(port_file) as file:
                    port = int(file.readline())
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list") as answer:
                    pages = [one for one in json.load(answer) if one["type"] == "page"]
                path = pages[0]["webSocketDebuggerUrl"].split("/", 3)[3]
                return WebSocket("127.0.0.1", port, "/" + path)
            except (OSError, ValueError, IndexError):
                time.sleep(0.05)
        raise Failure("chromium did not start in a minute")

    def call(self, method, **parameters):
        self._next += 1
        self._socket.send(json.dumps({"id": self._next, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.receive())
            if message.get("id") == self._next:
                if "error" in message:
                    raise Failure(f"{method}: {message['error']['message']}")
                return message["result"]
            if "method" in message:  # else the late answer to what was given up
                self._note(message)

    def _note(self, message):
        parameters = message.get("params", {})
        if message["method"] == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description", details["text"]))
        elif message["method"] == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.problems.append(f"{parameters['entry']['text']} {parameters['entry'].get('url', '')}")
        elif message["method"] == "Runtime.consoleAPICalled" and parameters["type"] == "error":
            self.problems.append(str(parameters["args"]))

    def set_dark(self, dark):
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def open(self, address):
        """Leaves the document that is shown, so that no later question reaches it."""
        self.wait("window.isLeft = true")
        self.call("Page.navigate", url=address)
        self.wait("!window.isLeft")

    def reload(self):
        self.wait("window.isLeft = true")
        self.call("Page.reload")
        self.wait("!window.isLeft")

    def run(self, expression):
        """The value of a JavaScript expression (awaited where it is a promise)."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise Failure(f"{expression}: {details.get('exception', {}).get('description')}")
        return result["result"].get("value")

    def wait(self, expression, seconds=60):
        """Until the expression is true; its value."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                value = self.run(expression)
            except Failure:
                value = None  # the page is still coming
            if value:
                return value
            time.sleep(0.05)
        raise Failure(f"never true: {expression}")

    def text(self, selector):
        return self.run(f"document.querySelector({json.dumps(selector)})?.textContent ?? ''")

    def click(self, selector):
        found = self.run(f"""(() => {{
          const element = document.querySelector({json.dumps(selector)});
          if (!element) return null;
          const box = element.getBoundingClientRect();
          return [box.x + box.width / 2, box.y + box.height / 2];
        }})()""")
        if not found:
            raise Failure(f"there is no {selector}")
        self.click_at(*found)

    def click_at(self, x, y):
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, clickCount=1,
                      button="none" if kind == "mouseMoved" else "left")

    def key(self, key):
        text = {"text": key} if len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def picture(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))


def find_chromium():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        path = shutil.which(name)
        if path:
            return path
    return None
