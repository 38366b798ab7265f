"""People, as the daemon's HTTP interface takes and gives them. Pure data."""

from __future__ import annotations

from typing import Literal

Role = Literal["owner", "admin", "member", "viewer"]
#: What a share lets its holder do: look, or prompt as well.
ShareAccess = Literal["view", "prompt"]
