"""The facts about a machine that explain its figures; nothing that tells whose it is."""

import os
import platform
import shutil
import subprocess
from pathlib import Path


def cpu_model() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, None)


def node_version() -> str | None:
    node = shutil.which("node")
    if node is None:
        return None
    asked = subprocess.run(
        [node, "--version"], capture_output=True, text=True, timeout=30, check=False
    )
    return asked.stdout.strip() or None


def machine_facts() -> dict[str, str | int | None]:
    return {
        "cpus": len(os.sched_getaffinity(0)),
        "cpu": cpu_model(),
        "architecture": platform.machine(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "node": node_version(),
    }
