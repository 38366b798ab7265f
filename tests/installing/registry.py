"""An npm registry on loopback with one tiny package, and an agent that comes from it."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from agor.catalogue import KnownAgent, NpmPackage
from tests.integration.processes import PATIENCE

NAME = "agor-tiny-agent"


def tiny_agent(version: str = "1.0.0") -> KnownAgent:
    """An agent as the catalogue would have it."""
    package = NpmPackage(
        name=NAME, version=version, programs=(".bin/missing", ".bin/tiny"), node=16, megabytes=1
    )
    return KnownAgent(
        name="tiny", title="Tiny", program="tiny", package=package, keys=("TINY_API_KEY",)
    )


class Registry:
    """Serves versions of the package, and can hold its downloads back."""

    def __init__(self) -> None:
        self._tarballs: dict[str, bytes] = {}
        #: What was downloaded.
        self.downloads: list[str] = []
        self.asked = threading.Event()
        self.may_answer = threading.Event()
        self.may_answer.set()
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry._answer(self)

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self.may_answer.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(PATIENCE)

    def publish(self, version: str, script: str | None = None) -> bytes:
        """Have a version of the package; gives the lock file for it."""
        manifest = _manifest(version)
        self._tarballs[version] = _tarball(
            {
                "package.json": (json.dumps(manifest), 0o644),
                "tiny": (script or f"#!/bin/sh\necho tiny {version}\n", 0o755),
            }
        )
        entry = {"version": version, "integrity": self._integrity(version), "bin": manifest["bin"]}
        lock = {
            "name": "tiny",
            "lockfileVersion": 3,
            "requires": True,
            "packages": {
                "": {"dependencies": {NAME: version}},
                f"node_modules/{NAME}": entry | {"hasInstallScript": True},
            },
        }
        return json.dumps(lock).encode()

    def forget(self, version: str) -> None:
        """Have that version no more."""
        del self._tarballs[version]

    def _integrity(self, version: str) -> str:
        digest = hashlib.sha512(self._tarballs[version]).digest()
        return f"sha512-{base64.b64encode(digest).decode()}"

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        version = request.path.removesuffix(".tgz").rpartition("-")[2]
        if request.path == f"/{NAME}":
            body = json.dumps(self._packument()).encode()
        elif version in self._tarballs:
            self.downloads.append(version)
            self.asked.set()
            self.may_answer.wait(PATIENCE)
            body = self._tarballs[version]
        else:
            request.send_error(404)
            return
        request.send_response(200)
        request.send_header("content-length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    def _packument(self) -> dict[str, Any]:
        versions = {
            version: _manifest(version)
            | {
                "dist": {
                    "tarball": f"{self.url}/{NAME}/-/{NAME}-{version}.tgz",
                    "integrity": self._integrity(version),
                }
            }
            for version in self._tarballs
        }
        return {"name": NAME, "dist-tags": {"latest": max(versions, default="")}} | {
            "versions": versions
        }


def _manifest(version: str) -> dict[str, Any]:
    # A script that would be seen if it were run.
    scripts = {"postinstall": 'touch "$AGOR_TEST_SCRIPT_RAN"'}
    return {"name": NAME, "version": version, "bin": {"tiny": "tiny"}, "scripts": scripts}


def _tarball(files: Mapping[str, tuple[str, int]]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, (text, mode) in files.items():
            data = text.encode()
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size, entry.mode = len(data), mode
            archive.addfile(entry, io.BytesIO(data))
    return packed.getvalue()
