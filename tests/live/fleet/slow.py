# SPDX-License-Identifier: Apache-2.0
"""A web server on port 8080 that serves DIRECTORY, takes reports, and answers after SECONDS."""

import http.server
import pathlib
import sys
import time

directory, seconds = pathlib.Path(sys.argv[1]), float(sys.argv[2])


class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, *args):
        super().__init__(*args, directory=str(directory))

    def do_GET(self):
        time.sleep(seconds)
        super().do_GET()

    def do_PUT(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(seconds)
        target = directory / self.path.lstrip("/")
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(body)
        self.send_response(204)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("198.18.1.2", 8080), Handler).serve_forever()
