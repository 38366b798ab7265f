"""A tool server over standard streams: one tool, which greets in words of its environment."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

TOOL: dict[str, Any] = {
    "name": "greet",
    "description": "Greets somebody.",
    "inputSchema": {
        "type": "object",
        "properties": {"name": {"type": "string"}},
        "required": ["name"],
    },
}

if "--read-only" in sys.argv:
    TOOL["annotations"] = {"readOnlyHint": True}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    match method:
        case "initialize":
            return {
                "protocolVersion": params.get("protocolVersion", "2025-06-18"),
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "greeter", "version": "1"},
            }
        case "tools/list":
            return {"tools": [TOOL]}
        case "tools/call":
            words = f"{os.environ['GREETING']}, {params['arguments']['name']}"
            return {"content": [{"type": "text", "text": words}], "isError": False}
        case "ping":
            return {}
    return None


for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        result = answer(request["method"], request.get("params") or {})
        body: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
        if result is None:
            body["error"] = {"code": -32601, "message": "no such method"}
        else:
            body["result"] = result
        print(json.dumps(body), flush=True)
