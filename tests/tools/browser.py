"""browser.py: a page in headless Chromium, driven through its debugging port: what it opens is what a person sees."""
import functools
import http.server
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
import urllib.request

import websocket  # PyPI: websocket-client


class Page:
    """A page at http://127.0.0.1/..., where the files of `folder` are. js() evaluates, and waits for a promise."""

    def __init__(self, folder, path="/"):
        handler = functools.partial(Quiet, directory=folder)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.profile = tempfile.mkdtemp(prefix="chromium-")
        self.process = subprocess.Popen(
            ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0",
             "--remote-allow-origins=*", f"--user-data-dir={self.profile}", "about:blank"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.calls = 0
        try:
            tabs = json.load(urllib.request.urlopen(f"http://127.0.0.1:{self.port()}/json"))
            self.socket = websocket.create_connection(
                next(t["webSocketDebuggerUrl"] for t in tabs if t["type"] == "page"), timeout=120)
            self.call("Page.enable")
            self.call("Page.navigate", url=f"http://127.0.0.1:{self.server.server_port}{path}")
            while self.js("document.readyState") != "complete":
                time.sleep(0.1)
        except BaseException:
            self.close()
            raise

    def port(self):
        file = os.path.join(self.profile, "DevToolsActivePort")
        for _ in range(300):
            if os.path.exists(file) and (lines := open(file).read().split()):
                return lines[0]
            time.sleep(0.1)
        raise RuntimeError("chromium does not open its debugging port")

    def call(self, method, **params):
        self.calls += 1
        self.socket.send(json.dumps({"id": self.calls, "method": method, "params": params}))
        while (answer := json.loads(self.socket.recv())).get("id") != self.calls:
            pass
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def js(self, expression):
        r = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in r:
            raise RuntimeError(r["exceptionDetails"].get("exception", {}).get("description") or r["exceptionDetails"]["text"])
        return r["result"].get("value")

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.server.shutdown()
        shutil.rmtree(self.profile, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass
