"""From what a user writes to a store, or to a file of this disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headscope.errors import HeadscopeError, brief
from headscope.extras import require
from headscope.files import disk_path, is_url
from headscope.stores.claims import PermittedClaim
from headscope.stores.disk import DiskStore
from headscope.stores.objects import ObjectStore
from headscope.stores.store import Permit, Store

PACKAGES = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs"}
OF_OTHERS = {"az": "adlfs", "abfs": "adlfs"}  # which fsspec knows, and no extra of headscope brings


def open_store(name: str | Path) -> Store:
    """The store of a run's folder: one of this disk, or an object store's prefix.

    >>> open_store("memory://runs/one").name
    'memory://runs/one'
    """
    if not is_url(name):
        return DiskStore(disk_path(name))
    return _object_store(str(name))


def open_permitted(permit: Permit) -> tuple[Store, PermittedClaim]:
    """The store that a permit is for, in a worker; HeadscopeError where it is out of reach, or another one."""
    store = _object_store(permit.url)
    return store, PermittedClaim(store, permit)


def _object_store(url: str) -> ObjectStore:
    files, root = filesystem_of(url)
    return ObjectStore(url, files, root)


def filesystem_of(url: str) -> tuple[Any, str]:
    """fsspec's file system and the path in it, or what is wrong with the address. No listing comes from a cache."""
    import fsspec

    kind, _, place = url.partition("://")
    if not place.strip("/"):
        raise HeadscopeError(f"{url!r} names no place", f"name one: {kind}://BUCKET/RUN")
    if kind in PACKAGES:
        require(f"reading and writing {kind}://", PACKAGES[kind])
    try:
        files, root = fsspec.core.url_to_fs(url, use_listings_cache=False)
    except (ImportError, ValueError) as error:
        remedy = (
            f"pip install {OF_OTHERS[kind]}" if kind in OF_OTHERS else "use s3://, gs://, az:// or a path of this disk"
        )
        raise HeadscopeError(f"addresses that begin with {kind}:// cannot be read: {brief(error)}", remedy) from error
    return files, str(root)


def fetch(url: str, names: Sequence[str], folder: Path) -> list[Path]:
    """Copy contents of a store into a folder of this disk: those of these names that there are."""
    store, found = _object_store(url), []
    for name in names:
        try:
            store.fetch(name, folder / name)
        except FileNotFoundError:
            continue
        except HeadscopeError as error:
            raise HeadscopeError(error.problem, "check the address, your credentials and the network") from error
        found.append(folder / name)
    return found
