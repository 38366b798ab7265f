"""The vault: holds the master key, and seals and opens credentials with it.

The key is read at first need, and only ever made where nothing was sealed before: a key that is
lost must not be replaced by another one without a word, since nothing would open any more. What is
opened is kept nowhere.
"""

from __future__ import annotations

import asyncio

import structlog

from agor.daemon.services.credentials import sealing
from agor.daemon.services.credentials.key_sources import KeySource
from agor.daemon.services.credentials.master_key import MasterKey
from agor.daemon.store import credentials
from agor.daemon.store.base import Store
from agor.daemon.store.rows import CredentialRow
from agor.errors import AgorError, MasterKeyUnusable

log = structlog.get_logger("agor.credentials")

#: Rows of a version that are tried before its key counts as another one.
_TRIED = 20


class Vault:
    """What is sealed is opened here and nowhere else."""

    def __init__(self, store: Store, source: KeySource) -> None:
        self.source = source
        self._store = store
        self._key: MasterKey | None = None
        self._loading = asyncio.Lock()
        #: Why there is no master key, as of the last attempt.
        self.problem: str | None = None

    async def open(self) -> None:
        """Look whether all is there that is needed; what is wrong is said, and told again later."""
        try:
            # A file is made when it is needed; what others keep for us has to be there already.
            if not self.source.ours or await credentials.counts(self._store):
                await self.ready()
        except AgorError as error:
            log.error("credentials_unusable", why=error.message, hint=error.hint)

    async def ready(self) -> MasterKey:
        """Have the master key; raises `MasterKeyUnusable`, with what to do about it."""
        if self._key is None:
            async with self._loading:
                if self._key is None:
                    self._key = await self._load()
        return self._key

    async def peek(self) -> MasterKey | None:
        """Have the master key if there is one, and make none."""
        nothing = self._key is None and await self.source.load() is None
        if nothing and not await credentials.counts(self._store):
            return None
        return await self.ready()

    def seal(self, row: CredentialRow, value: str) -> CredentialRow:
        """Seal a value with the newest version there is now; call `ready` before.

        To be committed at once: a rotation counts on what is sealed before it being in the line.
        """
        assert self._key is not None, "it is not ready"
        return sealing.seal(self._key, row, value)

    def unseal(self, row: CredentialRow) -> str:
        """Open a row; call `ready` before."""
        assert self._key is not None, "it is not ready"
        return sealing.unseal(self._key, row)

    def has(self, version: int) -> bool:
        """Tell whether a version of the master key is at hand."""
        return self._key is not None and version in self._key

    # ── the key itself ───────────────────────────────────────────────────────────────────────

    async def renew(self, *, lost: bool = False) -> None:
        """Have a version that is newer, if it is ours to make; else look for one at the source.

        `lost` says that there is no copy of a key that is gone: a new one is begun, and what was
        sealed with the old one is never opened again.
        """
        async with self._loading:
            used = await credentials.counts(self._store)
            if not self.source.ours:
                self._key = await self._reload(used)
                return
            if lost and self._key is None and await self.source.load() is None:
                fresh = MasterKey.fresh(max(used, default=0) + 1)
            else:
                known = self._key or await self._load()
                fresh = known.with_next(after=max(used, default=0))
            await self.source.save(fresh)
            self._key, self.problem = fresh, None

    async def _reload(self, used: dict[int, int]) -> MasterKey:
        """Look again at a source that is not ours; nothing that is needed may be gone."""
        known, fresh = self._key, await self._load()
        gone = [] if known is None else [v for v in used if v in known and v not in fresh]
        if gone:
            raise MasterKeyUnusable(
                f"{self.source.name} has version {', '.join(map(str, gone))} no more, and "
                "credentials are still sealed with it",
                hint="Give the old version behind the new one until the rotation is done.",
            )
        return fresh

    async def retire(self) -> list[int]:
        """Let go of the versions that nothing is sealed with; gives those that are let go."""
        async with self._loading:
            assert self._key is not None, "it is not ready"
            used = await credentials.counts(self._store)
            kept = self._key.only(used)
            retired = [each for each in self._key.versions if each not in kept]
            if not retired or not self.source.ours:
                return []
            await self.source.save(kept)
            self._key = kept
            return retired

    async def _load(self) -> MasterKey:
        try:
            key = await self._load_checked()
        except MasterKeyUnusable as error:
            self.problem = error.message
            raise
        self.problem = None
        return key

    async def _load_checked(self) -> MasterKey:
        key = await self.source.load()
        used = await credentials.counts(self._store)
        if key is None:
            if used:
                raise self._lost(used)
            key = MasterKey.fresh()
            await self.source.save(key)
            log.info("master_key_made", where=self.source.name)
        elif key.newest < max(used, default=0):
            # What is sealed now would be taken for sealed with a key that is lost.
            raise self._lost(used)
        for version in used:
            if version in key and not await self._fits(key, version):
                raise MasterKeyUnusable(
                    f"version {version} of the master key in {self.source.name} is another key "
                    "than credentials were sealed with",
                    hint="Put the right one back. A new key needs a new, higher version number, "
                    "before the old one.",
                )
        if missing := [version for version in used if version not in key]:
            log.error("master_key_versions_missing", versions=missing, where=self.source.name)
        return key

    async def _fits(self, key: MasterKey, version: int) -> bool:
        """Try whether anything opens; single rows may be damaged."""
        for row in await credentials.sealed_with(self._store, version, _TRIED):
            try:
                sealing.unseal(key, row)
            except MasterKeyUnusable:
                continue
            return True
        return False

    def _lost(self, used: dict[int, int]) -> MasterKeyUnusable:
        newest = max(used)
        return MasterKeyUnusable(
            f"{sum(used.values())} credentials are sealed with the master key (version {newest}), "
            f"and {self.source.name} does not have it",
            hint="Put it back from your copy; no other key can open them. If there is no copy, "
            "begin a new one (agor credential rotate --lost), and store the credentials anew.",
        )
