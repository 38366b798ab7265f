"""What is sealed opens as what it was stored as, and as nothing else."""

from __future__ import annotations

import msgspec
import pytest

from agor.daemon.services.credentials.master_key import MasterKey
from agor.daemon.services.credentials.sealing import seal, unseal
from agor.daemon.store.rows import CredentialRow
from agor.errors import MasterKeyUnusable

VALUE = "sk-ant-ünïcode-0123456789"
KEY = MasterKey.fresh()
ROW = CredentialRow(
    credential_id="credential-1", user_id="user-1", name="ANTHROPIC_API_KEY",
    base_url="https://llm.example.com", last_four="6789", set_by="user-1", key_version=0,
    created_at=1, updated_at=1, last_used_at=None, agents=b'["claude-code"]', sealed=b"",
)  # fmt: skip


def test_what_is_sealed_opens_again() -> None:
    sealed = seal(KEY, ROW, VALUE)
    assert unseal(KEY, sealed) == VALUE
    assert VALUE.encode() not in sealed.sealed
    assert sealed.key_version == 1


def test_no_two_sealings_are_alike() -> None:
    assert len({seal(KEY, ROW, VALUE).sealed[:12] for _ in range(1000)}) == 1000


@pytest.mark.parametrize(
    "change",
    [
        {"user_id": "user-2"},
        {"user_id": ""},
        {"credential_id": "credential-2"},
        {"name": "OPENAI_API_KEY"},
        {"base_url": "https://evil.example.com"},
        {"base_url": None},
        {"agents": None},
        {"agents": b'["opencode"]'},
        {"key_version": 2},
    ],
)
def test_a_row_that_was_changed_in_the_database_does_not_open(change: dict[str, object]) -> None:
    """Copied onto another person, or with another place to send the key to."""
    key = KEY.with_next()
    sealed = msgspec.structs.replace(seal(KEY, ROW, VALUE), **change)
    with pytest.raises(MasterKeyUnusable, match="cannot be opened") as caught:
        unseal(key, sealed)
    assert VALUE not in str(caught.value)


@pytest.mark.parametrize("cut", [0, 1, 12, 13, 27, -1])
def test_a_value_that_is_cut_or_changed_does_not_open(cut: int) -> None:
    sealed = seal(KEY, ROW, VALUE)
    with pytest.raises(MasterKeyUnusable):
        unseal(KEY, msgspec.structs.replace(sealed, sealed=sealed.sealed[:cut]))
    changed = bytearray(sealed.sealed)
    changed[cut] ^= 1
    with pytest.raises(MasterKeyUnusable):
        unseal(KEY, msgspec.structs.replace(sealed, sealed=bytes(changed)))


def test_a_version_that_is_missing_is_named() -> None:
    sealed = seal(KEY.with_next(), ROW, VALUE)
    with pytest.raises(MasterKeyUnusable, match="version 2 of the master key"):
        unseal(KEY, sealed)


def test_another_master_key_does_not_open_it() -> None:
    with pytest.raises(MasterKeyUnusable, match="another"):
        unseal(MasterKey.fresh(), seal(KEY, ROW, VALUE))


def test_what_is_used_of_it_later_changes_nothing() -> None:
    sealed = seal(KEY, ROW, VALUE)
    assert unseal(KEY, msgspec.structs.replace(sealed, last_used_at=9, updated_at=9)) == VALUE
