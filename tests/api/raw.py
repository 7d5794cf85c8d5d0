"""HTTP on a plain socket, for what a well-behaved client never sends."""
import dataclasses
import json
import os
import socket

PATIENCE = float(os.environ.get("PENSTOCK_TEST_PATIENCE", 1))  # slow builds ask for a multiple of every limit


@dataclasses.dataclass
class Response:
    status: int
    headers: dict
    body: bytes

    def json(self):
        return json.loads(self.body)


class Connection:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=120 * PATIENCE)
        self.file = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.file.close()
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def request(self, method, path, body=b"", headers=None):
        fields = {"Host": "localhost", "Content-Length": len(body), **(headers or {})}
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
        self.send("\r\n".join([*lines, "", ""]).encode() + body)

    def header(self):
        status = int(self.file.readline().split()[1])
        headers = {}
        while (line := self.file.readline().strip()):
            name, _, value = line.decode().partition(":")
            headers[name.lower()] = value.strip()
        return status, headers

    def response(self):
        status, headers = self.header()
        if "content-length" in headers:
            return Response(status, headers, self.file.read(int(headers["content-length"])))
        return Response(status, headers, b"".join(self.chunks()))

    def chunks(self):
        while (size := int(self.file.readline(), 16)):
            yield self.file.read(size)
            self.file.readline()
        self.file.readline()

    def at_end(self):
        return self.file.read(1) == b""


def ask(port, method, path, body=b"", headers=None):
    with Connection(port) as connection:
        connection.request(method, path, body, headers)
        return connection.response()


def chat_body(content="Say hello.", **fields):
    return json.dumps(
        {"model": "smollm2", "messages": [{"role": "user", "content": content}], "temperature": 0, **fields}).encode()


def chat(port, body):
    return ask(port, "POST", "/v1/chat/completions", body)
