"""Decides which process writes a run's store: the one with the newest claim. Each claim is a generation.

A process that finds a newer claim than its own stops writing. What it has written by then is complete, and what the
newer one writes has other names.
"""

from __future__ import annotations

import secrets

from oomph.errors import StoreError, SupersededError
from oomph.process.process_identity import ProcessIdentity
from oomph.run.store.layout import StoreManifest, WriteClaim, claim_name, manifest_names
from oomph.run.store.object_store import ObjectStore

_MOST_OF_CLAIM, _MOST_OF_MANIFEST = 1 << 16, 1 << 30
_TRIES = 10


def newest_claim(objects: ObjectStore) -> WriteClaim | None:
    """Return the newest claim, or None if there is none. Raises StoreError.

    Claims are never removed, so that the newest can be found without listing the store: by doubling, then halving.
    """
    beyond = 1
    while objects.read(claim_name(beyond), 1) is not None:
        beyond *= 2
    newest = beyond // 2
    while beyond - newest > 1:
        middle = (newest + beyond) // 2
        if objects.read(claim_name(middle), 1) is None:
            beyond = middle
        else:
            newest = middle
    return None if newest == 0 else _claim(objects, newest)


def newest_manifest(objects: ObjectStore, claim: WriteClaim | None) -> StoreManifest | None:
    """Return the newest whole manifest up to a claim's generation, or None if there is none. Raises StoreError."""
    for generation in range(0 if claim is None else claim.generation, 0, -1):
        found = [_manifest(objects, generation, name) for name in manifest_names(generation)]
        whole = [manifest for manifest in found if manifest is not None]
        if whole:
            return max(whole, key=lambda manifest: manifest.sequence)
    return None


def claim_after(objects: ObjectStore, before: WriteClaim | None, owner: ProcessIdentity) -> WriteClaim:
    """Claim the next generation. Raises StoreError."""
    generation = 1 if before is None else before.generation + 1
    for number in range(generation, generation + _TRIES):
        claim = WriteClaim(number, owner, secrets.token_hex(16))
        if objects.create(claim.name, claim.to_json()) and _claim(objects, number) == claim:
            return claim
    raise StoreError(f"{objects.shown} is claimed by other oomph runs, one after another")


def check_newest(objects: ObjectStore, claim: WriteClaim) -> None:
    """Raise SupersededError if somebody else writes the store now, or StoreError if that cannot be found out."""
    if objects.read(claim_name(claim.generation + 1), 1) is not None:
        newer = newest_claim(objects)
    else:
        newer = _claim(objects, claim.generation)  # two may have claimed it at once, and the store has kept the other
    if newer != claim:
        who = "it has been emptied" if newer is None else f"another oomph run, {newer.owner}, writes it now"
        raise SupersededError(f"nothing more is copied to {objects.shown}: {who}")


def _claim(objects: ObjectStore, generation: int) -> WriteClaim | None:
    data = objects.read(claim_name(generation), _MOST_OF_CLAIM)
    try:
        return None if data is None else WriteClaim.from_json(generation, data)
    except ValueError:
        return WriteClaim(generation, ProcessIdentity(0), "")  # its writer was killed; the generation is taken


def _manifest(objects: ObjectStore, generation: int, name: str) -> StoreManifest | None:
    data = objects.read(name, _MOST_OF_MANIFEST)
    if data is None:
        return None
    try:
        return StoreManifest.from_json(generation, data)
    except ValueError:
        return None  # its writer was killed; the other one is whole
