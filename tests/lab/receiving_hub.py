"""A server on this machine that speaks as much of the hub's protocol as a push and a read take."""

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

COMMIT = "1" * 40


@dataclass
class LocalHub:
    """Repositories by name, the files of each by path; `large` are files that are sent on their own."""

    files: dict[str, dict[str, bytes]] = field(default_factory=dict)
    private: dict[str, bool] = field(default_factory=dict)
    large: dict[str, bytes] = field(default_factory=dict)
    tokens: set[str | None] = field(default_factory=set)
    refuses: bool = False
    address: str = ""


@contextmanager
def receiving_hub() -> Iterator[LocalHub]:
    """The server, until the block ends."""

    class Handler(_Handler):
        hub = LocalHub()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Handler.hub.address = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield Handler.hub
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: LocalHub

    def log_message(self, *_words: object) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        body = self._body()
        if self.hub.refuses:
            self._answer(401, {"error": "Invalid credentials"})
        elif self.path == "/api/repos/create":
            asked = json.loads(body)
            name = "/".join(filter(None, (asked.get("organization"), asked["name"])))
            self.hub.files[name] = {}
            self.hub.private[name] = asked.get("private") or asked.get("visibility") == "private"
            self._answer(200, {"url": f"{self.hub.address}/{name}", "id": name})
        elif self.path == "/api/validate-yaml":
            self._answer(200, {"errors": [], "warnings": []})
        elif "/preupload/" in self.path:
            modes = [
                {"path": each["path"], "uploadMode": _mode(each["path"]), "shouldIgnore": False}
                for each in json.loads(body)["files"]
            ]
            self._answer(200, {"files": modes})
        elif self.path.endswith("/info/lfs/objects/batch"):
            objects = [
                {**each, "actions": {"upload": {"href": f"{self.hub.address}/large/{each['oid']}"}}}
                for each in json.loads(body)["objects"]
            ]
            self._answer(200, {"transfer": "basic", "objects": objects})
        elif "/commit/" in self.path:
            self._commit(body)
        else:
            self._answer(404, {"error": "Not Found"})

    def _commit(self, body: bytes) -> None:
        name = _repository(self.path)
        files = self.hub.files[name]
        for line in map(json.loads, body.decode().splitlines()):
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.hub.large[value["oid"]]
        self._answer(200, {"commitUrl": f"{self.hub.address}/{name}/commit/{COMMIT}", "commitOid": COMMIT})

    def do_PUT(self) -> None:
        content = self._body()
        self.hub.large[hashlib.sha256(content).hexdigest()] = content
        self._answer(200, {})

    def do_HEAD(self) -> None:
        self._resolve(with_content=False)

    def do_GET(self) -> None:
        if "/resolve/" in self.path:
            self._resolve(with_content=True)
        else:
            self._body()
            self._answer(404, {"error": "Not Found"})

    def _resolve(self, *, with_content: bool) -> None:
        self._body()
        owner, name, _, _, path = self.path.lstrip("/").split("?")[0].split("/", 4)
        content = self.hub.files.get(f"{owner}/{name}", {}).get(path)
        if content is None:
            self._answer(404, {}, {"X-Error-Code": "EntryNotFound"}, with_content)
            return
        tag = hashlib.sha256(content).hexdigest()
        self._answer(200, content, {"ETag": f'"{tag}"', "X-Repo-Commit": COMMIT}, with_content)

    def _body(self) -> bytes:
        self.hub.tokens.add(self.headers.get("Authorization"))
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _answer(
        self, code: int, content: Any, headers: dict[str, str] | None = None, with_content: bool = True
    ) -> None:
        sent = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(code)
        for name, value in {**(headers or {}), "Content-Length": str(len(sent))}.items():
            self.send_header(name, value)
        self.end_headers()
        if with_content:
            self.wfile.write(sent)


def _mode(path: str) -> str:
    return "lfs" if path.endswith(".safetensors") else "regular"


def _repository(path: str) -> str:
    _, _, kind, owner, name, *_ = path.split("/")
    assert kind == "models"
    return f"{owner}/{name}"
