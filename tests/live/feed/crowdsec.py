# SPDX-License-Identifier: Apache-2.0
# The part of CrowdSec's local API that bouncers ask: each answer is the content of a file, which is
# removed afterwards; without it there is nothing new. Usage: crowdsec.py DIRECTORY KEY
import http.server
import os
import sys

directory, key = sys.argv[1:]


class Api(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        with open(os.path.join(directory, "asked"), "a") as log:
            print(self.path, file=log)
        body, status = b'{"new":null,"deleted":null}', 200
        if self.headers.get("X-Api-Key") != key:
            body, status = b'{"message":"access forbidden"}', 403
        elif not self.path.startswith("/v1/decisions/stream"):
            body, status = b"404 page not found", 404
        else:
            name = os.path.join(directory, "startup" if "startup=true" in self.path else "delta")
            if os.path.exists(name):
                with open(name, "rb") as file:
                    body = file.read()
                if name.endswith("delta"):
                    os.remove(name)
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", 8080), Api).serve_forever()
