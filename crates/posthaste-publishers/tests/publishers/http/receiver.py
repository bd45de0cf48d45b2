"""Webhook receiver with Python's standard library: writes every request with a valid signature to a file."""

import base64
import hashlib
import hmac
import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from urllib.parse import unquote

port, key, path = sys.argv[1:]
secret = base64.b64decode(key.removeprefix("whsec_"))
lock = Lock()


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if not self.is_signed(body):
            return self.respond(401)
        line = {name: unquote(value) for name, value in self.headers.items() if name.startswith("ce-")}
        line["body"] = body.decode()
        with lock, open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        self.respond(204)

    def is_signed(self, body):
        event, timestamp = self.headers["webhook-id"], self.headers["webhook-timestamp"]
        if abs(time.time() - int(timestamp)) > 300:
            return False
        code = hmac.new(secret, f"{event}.{timestamp}.".encode() + body, hashlib.sha256).digest()
        expected = "v1," + base64.b64encode(code).decode()
        signatures = self.headers["webhook-signature"].split(" ")
        return any(hmac.compare_digest(expected, signature) for signature in signatures)

    def respond(self, status):
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", int(port)), Receiver).serve_forever()
