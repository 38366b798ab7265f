"""Sealing a credential's value, and opening it again: AES-256-GCM.

What is not secret about the row is sealed in with it, so that a value opens only as what it was
stored as: not on another person's row, not under another name, not with another base URL (which
says where the key is sent to), nor for other agents.
"""

from __future__ import annotations

import os

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from agor.daemon.services.credentials.master_key import MasterKey
from agor.daemon.store.rows import CredentialRow
from agor.errors import MasterKeyUnusable
from agor.protocol.validation import quoted

#: Bytes of a nonce: fresh and random for every sealing.
_NONCE = 12
#: Names the form of what is sealed in; another form would have another name.
_FORM = "agor credential 1"


def seal(key: MasterKey, row: CredentialRow, value: str) -> CredentialRow:
    """Give the row with this value in it, under the newest version of the master key."""
    row = msgspec.structs.replace(row, key_version=key.newest)
    nonce = os.urandom(_NONCE)
    cipher = AESGCM(key.bytes_of(key.newest))
    sealed = nonce + cipher.encrypt(nonce, value.encode(), _bound(row))
    return msgspec.structs.replace(row, sealed=sealed)


def unseal(key: MasterKey, row: CredentialRow) -> str:
    """Give the value of a row; raises `MasterKeyUnusable`."""
    if row.key_version not in key:
        raise MasterKeyUnusable(
            f"the credential {quoted(row.name)} is sealed with version {row.key_version} of the "
            "master key, and that version is missing",
            hint="Put that version back, or store the credential anew.",
        )
    nonce, rest = row.sealed[:_NONCE], row.sealed[_NONCE:]
    try:
        return AESGCM(key.bytes_of(row.key_version)).decrypt(nonce, rest, _bound(row)).decode()
    except (InvalidTag, ValueError):
        raise MasterKeyUnusable(
            f"the credential {quoted(row.name)} cannot be opened: the master key is another than "
            "it was sealed with, or somebody changed it in the database",
            hint="Put the right master key back, or store the credential anew.",
        ) from None


def _bound(row: CredentialRow) -> bytes:
    """Spell what a value is bound to, so that no two rows are spelled the same."""
    agents = None if row.agents is None else row.agents.decode()
    return msgspec.json.encode(
        [_FORM, row.credential_id, row.user_id, row.name, row.key_version, row.base_url, agents]
    )
