"""A hub on this machine that speaks as much of the protocol as its client asks for.

It serves data sets, and takes models that are pushed, which can be read from then on.
"""

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

Files = Mapping[str, bytes]
"""Content by path."""
Repositories = Mapping[str, Mapping[str, Files]]
"""By the data set's name and the revision's."""

PUSHED = "1" * 40
"""The commit of every model."""


@dataclass
class LocalHub:
    """Data sets, and models by name, of which `large` files are sent on their own, by digest.

    `tokens` are those of all requests; while it `refuses`, nothing can be pushed.
    """

    served: Repositories
    models: dict[str, dict[str, bytes]] = field(default_factory=dict)
    private: dict[str, bool] = field(default_factory=dict)
    large: dict[str, bytes] = field(default_factory=dict)
    tokens: set[str | None] = field(default_factory=set)
    refuses: bool = False
    address: str = ""

    def is_asked(self, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
        """Let this process, whose client has read another's address, ask it, and keep files in the cache."""
        import huggingface_hub.constants

        of_file = f"{self.address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        for name, value in {
            "ENDPOINT": self.address,
            "HUGGINGFACE_CO_URL_TEMPLATE": of_file,
            "HF_HUB_CACHE": str(cache),
            "HF_HUB_DISABLE_XET": True,
        }.items():
            monkeypatch.setattr(huggingface_hub.constants, name, value)


def commit(name: str, revision: str, files: Files) -> str:
    """The commit that a revision's name stands for: 40 hexadecimal digits of its files, as the hub's."""
    content = "".join(hashlib.sha1(content).hexdigest() for content in files.values())
    return hashlib.sha1(f"{name} {revision} {content}".encode()).hexdigest()


@contextmanager
def local_hub(served: Repositories = MappingProxyType({})) -> Iterator[LocalHub]:
    """The hub, until the block ends; what it does not know is answered as the hub does, by 404."""

    class Handler(_Handler):
        hub = LocalHub(served)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Handler.hub.address = f"http://127.0.0.1:{server.server_port}"
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield Handler.hub
        finally:
            server.shutdown()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body at once: apart, the body waits 40 ms for the client to acknowledge the head
    hub: LocalHub

    def do_GET(self) -> None:
        self._answer(self._sent())

    def do_HEAD(self) -> None:
        self._answer(self._sent())

    def do_POST(self) -> None:
        if self.path.startswith("/api/datasets/"):
            self._answer(self._sent())
        else:
            self._pushed(self._sent())

    def do_PUT(self) -> None:
        content = self._sent()
        self.hub.large[hashlib.sha256(content).hexdigest()] = content
        self._json({})

    def _sent(self) -> bytes:
        self.hub.tokens.add(self.headers.get("Authorization"))
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _answer(self, sent: bytes) -> None:
        parts = [unquote(part) for part in urlsplit(self.path).path.strip("/").split("/")]
        match parts:
            case ["api", "datasets", owner, name, *asked]:
                self._data_set(f"{owner}/{name}", asked, sent.decode())
            case ["datasets", owner, name, "resolve", revision, *path]:
                self._file(self._found(f"{owner}/{name}", revision), "/".join(path))
            case [owner, name, "resolve", _, *path]:
                self._file((PUSHED, self.hub.models.get(f"{owner}/{name}", {})), "/".join(path))
            case _:
                self._json({"error": "Not Found"}, 404)

    def _data_set(self, name: str, asked: list[str], sent: str) -> None:
        match asked:
            case []:
                self._information(name, "main")
            case ["revision", revision]:
                self._information(name, revision)
            case ["tree", revision, *folder]:
                self._tree(name, revision, "/".join(folder))
            case ["paths-info", revision]:
                body = json.loads(sent) if sent.startswith("{") else parse_qs(sent)
                self._paths(name, revision, list(body.get("paths", [])))
            case _:
                self._missing("Entry not found", "EntryNotFound")

    def _found(self, name: str, revision: str) -> tuple[str, Files] | None:
        for known, files in self.hub.served.get(name, {}).items():
            if revision in (known, commit(name, known, files)):
                return commit(name, known, files), files
        return None

    def _information(self, name: str, revision: str) -> None:
        if (found := self._found(name, revision)) is None:
            known = name in self.hub.served
            error = ("Revision not found", "RevisionNotFound") if known else ("Not found", "RepoNotFound")
            return self._missing(*error)
        sha, files = found
        siblings = [{"rfilename": path} for path in files]
        about = {"id": name, "sha": sha, "private": False, "tags": [], "downloads": 0, "siblings": siblings}
        return self._json(about)

    def _tree(self, name: str, revision: str, folder: str) -> None:
        if (found := self._found(name, revision)) is None:
            return self._missing("Revision not found", "RevisionNotFound")
        inside = {path: content for path, content in found[1].items() if path.startswith(folder)}
        if not inside:
            return self._missing("Entry not found", "EntryNotFound")
        if parse_qs(urlsplit(self.path).query).get("recursive", ["false"])[0].lower() == "true":
            return self._json([_entry(path, content) for path, content in inside.items()])
        start = f"{folder}/" if folder else ""
        here = {path: c for path, c in inside.items() if "/" not in path.removeprefix(start)}
        folders = {start + p.removeprefix(start).split("/")[0] for p in inside if p not in here}
        files = (_entry(path, content) for path, content in here.items())
        return self._json([*map(_folder, folders), *files])

    def _paths(self, name: str, revision: str, paths: list[str]) -> None:
        if (found := self._found(name, revision)) is None:
            return self._missing("Revision not found", "RevisionNotFound")
        files = found[1]
        entries = [_entry(path, files[path]) for path in paths if path in files]
        folders = [p for p in paths if p not in files and any(f.startswith(f"{p}/") for f in files)]
        return self._json([*entries, *map(_folder, folders)])

    def _file(self, found: tuple[str, Files] | None, path: str) -> None:
        if found is None or path not in found[1]:
            return self._missing("Entry not found", "EntryNotFound")
        content = found[1][path]
        etag = f'"{hashlib.sha256(content).hexdigest()}"'
        headers = {"ETag": etag, "X-Repo-Commit": found[0], "Accept-Ranges": "bytes"}
        asked = self.headers.get("Range", "")
        if asked.startswith("bytes="):
            first, _, last = asked.removeprefix("bytes=").partition("-")
            end = min(int(last) + 1, len(content)) if last else len(content)
            headers["Content-Range"] = f"bytes {first}-{end - 1}/{len(content)}"
            return self._send(206, content[int(first) : end], "application/octet-stream", headers)
        return self._send(200, content, "application/octet-stream", headers)

    def _pushed(self, body: bytes) -> None:
        """Answer one of the requests that make up a push of a model."""
        if self.hub.refuses:
            return self._json({"error": "Invalid credentials"}, 401)
        match self.path.strip("/").split("/"):
            case ["api", "repos", "create"]:
                asked = json.loads(body)
                name = "/".join(filter(None, (asked.get("organization"), asked["name"])))
                self.hub.models[name] = {}
                self.hub.private[name] = asked.get("private") or asked.get("visibility") == "private"
                return self._json({"url": f"{self.hub.address}/{name}", "id": name})
            case ["api", "validate-yaml"]:
                return self._json({"errors": [], "warnings": []})
            case ["api", "models", _, _, "preupload", *_]:
                paths = [each["path"] for each in json.loads(body)["files"]]
                modes = [{"path": path, "uploadMode": _mode(path), "shouldIgnore": False} for path in paths]
                return self._json({"files": modes})
            case [*_, "info", "lfs", "objects", "batch"]:
                objects = [
                    {**each, "actions": {"upload": {"href": f"{self.hub.address}/large/{each['oid']}"}}}
                    for each in json.loads(body)["objects"]
                ]
                return self._json({"transfer": "basic", "objects": objects})
            case ["api", "models", owner, name, "commit", *_]:
                return self._commit(f"{owner}/{name}", body)
        return self._json({"error": "Not Found"}, 404)

    def _commit(self, name: str, body: bytes) -> None:
        files = self.hub.models[name]
        for line in map(json.loads, body.decode().splitlines()):
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.hub.large[value["oid"]]
        self._json({"commitUrl": f"{self.hub.address}/{name}/commit/{PUSHED}", "commitOid": PUSHED})

    def _json(self, value: Any, status: int = 200) -> None:
        self._send(status, json.dumps(value).encode(), "application/json", {})

    def _missing(self, message: str, code: str) -> None:
        headers = {"X-Error-Code": code, "X-Error-Message": message}
        self._send(404, json.dumps({"error": message}).encode(), "application/json", headers)

    def _send(self, status: int, content: bytes, kind: str, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Type": kind, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed."""


def _mode(path: str) -> str:
    return "lfs" if path.endswith(".safetensors") else "regular"


def _entry(path: str, content: bytes) -> dict[str, Any]:
    return {"type": "file", "oid": hashlib.sha1(content).hexdigest(), "size": len(content), "path": path}


def _folder(path: str) -> dict[str, Any]:
    return {"type": "directory", "oid": commit(path, "", {}), "size": 0, "path": path}
