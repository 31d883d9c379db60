"""A server of data sets on this machine that speaks as much of the hub's protocol as its client asks for."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

Files = Mapping[str, bytes]
"""Content by path."""
Repositories = Mapping[str, Mapping[str, Files]]
"""By the data set's name and the revision's."""


def commit(name: str, revision: str, files: Files) -> str:
    """The commit that a revision's name stands for: 40 hexadecimal digits of its files, as the hub's."""
    content = "".join(hashlib.sha1(content).hexdigest() for content in files.values())
    return hashlib.sha1(f"{name} {revision} {content}".encode()).hexdigest()


@contextmanager
def local_hub(repositories: Repositories) -> Iterator[str]:
    """The address of a hub with these data sets; other requests are answered as the hub does, by 404."""

    class Handler(_Handler):
        served = repositories

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body at once: apart, the body waits 40 ms for the client to acknowledge the head
    served: Repositories = MappingProxyType({})

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        self._answer(json.loads(sent) if sent.startswith("{") else parse_qs(sent))

    def _answer(self, body: Mapping[str, Any] | None = None) -> None:
        parts = [unquote(part) for part in urlsplit(self.path).path.strip("/").split("/")]
        match parts:
            case ["api", "datasets", owner, name]:
                self._information(f"{owner}/{name}", "main")
            case ["api", "datasets", owner, name, "revision", revision]:
                self._information(f"{owner}/{name}", revision)
            case ["api", "datasets", owner, name, "tree", revision, *folder]:
                self._tree(f"{owner}/{name}", revision, "/".join(folder))
            case ["api", "datasets", owner, name, "paths-info", revision]:
                paths = list((body or {}).get("paths", []))
                self._paths(f"{owner}/{name}", revision, paths)
            case ["datasets", owner, name, "resolve", revision, *path]:
                self._file(f"{owner}/{name}", revision, "/".join(path))
            case _:
                self._missing("Entry not found", "EntryNotFound")

    def _found(self, name: str, revision: str) -> tuple[str, Files] | None:
        for known, files in self.served.get(name, {}).items():
            if revision in (known, commit(name, known, files)):
                return commit(name, known, files), files
        return None

    def _information(self, name: str, revision: str) -> None:
        if (found := self._found(name, revision)) is None:
            known = name in self.served
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

    def _file(self, name: str, revision: str, path: str) -> None:
        found = self._found(name, revision)
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

    def _json(self, value: Any) -> None:
        self._send(200, json.dumps(value).encode(), "application/json", {})

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


def _entry(path: str, content: bytes) -> dict[str, Any]:
    return {"type": "file", "oid": hashlib.sha1(content).hexdigest(), "size": len(content), "path": path}


def _folder(path: str) -> dict[str, Any]:
    return {"type": "directory", "oid": commit(path, "", {}), "size": 0, "path": path}
