"""`python docs/check_site.py site`: every page of the built site in headless Chromium, on a phone and on a desk.

A page passes if its console is free of errors, nothing is wider than the screen, nothing is asked of the network, and
every link to the site leads to a file, and to a place in it that is there. `--shots FOLDER PAGE ...` takes screenshots
of some pages instead, light and dark. Chromium speaks the DevTools protocol over a websocket.
"""

import argparse
import base64
import http.server
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from contextlib import ExitStack
from functools import partial
from html.parser import HTMLParser
from pathlib import Path

from websockets.sync.client import connect

WIDTHS = (390, 1440)
#: what is wider than the screen, and not inside a box that scrolls
TOO_WIDE = """(() => {
  const root = document.documentElement, wide = root.scrollWidth - window.innerWidth;
  if (wide <= 0) return "";
  const out = [...document.querySelectorAll("article *, body *")].filter(e => {
    if (e.getBoundingClientRect().right <= window.innerWidth + 1) return false;
    for (let p = e.parentElement; p; p = p.parentElement)
      if (p !== document.body && p !== root && getComputedStyle(p).overflowX !== "visible") return false;
    return true; });
  return wide + " px: " + out.slice(0, 3).map(e => e.tagName + "." + e.className).join(", "); })()"""


class Browser:
    """A tab of a headless Chromium."""

    def __init__(self, folder: str):
        found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
        if found is None:
            raise SystemExit("check_site needs Chromium, which is not installed: apt install chromium")
        flags = ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-port=0")
        command = [found, *flags, f"--user-data-dir={folder}", "about:blank"]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        told = Path(folder) / "DevToolsActivePort"
        for _ in range(300):
            if told.exists() and "\n" in told.read_text():
                break
            time.sleep(0.1)
        port = told.read_text().split()[0]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list") as answer:
            tab = next(tab for tab in json.load(answer) if tab["type"] == "page")
        self.stack = ExitStack()
        self.socket = self.stack.enter_context(connect(tab["webSocketDebuggerUrl"], max_size=None))
        self.number, self.events = 0, []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params) -> dict:
        """The answer to a command; what happens meanwhile is kept in `events`."""
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": params}))
        while True:
            message = json.loads(self.socket.recv(timeout=60))
            if message.get("id") == self.number:
                return message.get("result", {})
            self.events.append(message)

    def value(self, script: str):
        """What a script returns."""
        return self.call("Runtime.evaluate", expression=script, returnByValue=True)["result"].get("value")

    def open(self, address: str, width: int, height: int = 900) -> None:
        """Go to a page, and wait until it is there."""
        self.events.clear()
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        self.call("Page.navigate", url=address)
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.events.append(json.loads(self.socket.recv(timeout=60)))
        self.value("1")

    def complaints(self, own: str) -> list[str]:
        """Errors of the console, and what was asked of the network."""
        found = []
        for event in self.events:
            told = event.get("params", {})
            if event["method"] == "Runtime.exceptionThrown":
                found.append(f"exception: {told['exceptionDetails'].get('text')}")
            elif event["method"] == "Runtime.consoleAPICalled" and told["type"] in ("error", "assert"):
                found.append(f"console: {[one.get('value') for one in told['args']]}")
            elif event["method"] == "Log.entryAdded" and told["entry"]["level"] == "error":
                found.append(f"log: {told['entry']['text']} {told['entry'].get('url', '')}")
            elif event["method"] == "Network.requestWillBeSent":
                url = told["request"]["url"]
                if not url.startswith((own, "data:", "blob:", "about:")):
                    found.append(f"asks the network for {url}")
        return found

    def close(self) -> None:
        """End the browser."""
        self.stack.close()
        self.process.terminate()
        self.process.wait(timeout=20)


class Links(HTMLParser):
    """The links of a page, and the places in it that a link can lead to."""

    def __init__(self, text: str):
        super().__init__()
        self.links, self.places = [], set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list) -> None:
        """Called for every tag."""
        given = dict(attrs)
        self.places |= {given[name] for name in ("id", "name") if given.get(name)}
        self.links += [given[name] for name in ("href", "src") if given.get(name) and tag != "use"]


def broken(site: Path, pages: list[Path]) -> list[str]:
    """Links to the site that lead nowhere."""
    read = {page.resolve(): Links(page.read_text(encoding="utf-8")) for page in pages}
    found = []
    for page, links in read.items():
        for link in set(links.links):
            path, _, place = link.partition("#")
            if re.match(r"[a-z][a-z0-9+.-]*:|//", link):
                continue
            target = page.parent / urllib.parse.unquote(path.partition("?")[0]) if path else page
            target = (target / "index.html" if target.is_dir() else target).resolve()
            if not target.exists():
                found.append(f"{page.relative_to(site)}: {link} is not there")
            elif place and target in read and urllib.parse.unquote(place) not in read[target].places:
                found.append(f"{page.relative_to(site)}: {link} has no such place")
    return found


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files, and says nothing."""

    def log_message(self, *args) -> None:
        """No log."""


def shoot(browser: Browser, address: str, page: str, folder: Path) -> None:
    """A page at both widths, light and dark."""
    for scheme in ("light", "dark"):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.call("Emulation.setEmulatedMedia", features=features)
        for width in WIDTHS:
            browser.open(f"{address}/{page}", width, 844 if width < 600 else 1000)
            time.sleep(0.3)
            picture = browser.call("Page.captureScreenshot", format="png")["data"]
            name = f"{page.removesuffix('.html').replace('/', '-')}-{width}-{scheme}.png"
            (folder / name).write_bytes(base64.b64decode(picture))


def main() -> None:
    """Look at every page, and exit with 1 if one has a fault."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("site", type=Path)
    parser.add_argument("--shots", nargs="+", metavar=("FOLDER", "PAGE"))
    given = parser.parse_args()
    site = given.site.resolve()
    pages = sorted(site.rglob("*.html"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    faults = [] if given.shots else broken(site, pages)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        browser = Browser(folder)
        try:
            if given.shots:
                out = Path(given.shots[0])
                os.makedirs(out, exist_ok=True)
                for page in given.shots[1:]:
                    shoot(browser, address, page, out)
            for page in [] if given.shots else pages:
                name = page.relative_to(site).as_posix()
                for width in WIDTHS:
                    browser.open(f"{address}/{name}", width)
                    wide = browser.value(TOO_WIDE)
                    told = [*browser.complaints(address), *([f"too wide by {wide}"] if wide else [])]
                    faults += [f"{name} at {width} px: {what}" for what in told]
        finally:
            browser.close()
    print("\n".join(faults) or f"{len(pages)} pages, nothing to complain of.")
    raise SystemExit(bool(faults))


if __name__ == "__main__":
    main()
