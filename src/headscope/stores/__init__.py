"""Stores: where a run's folder is kept. The disk is one, an object store (`s3://`, `gs://`) another."""

from headscope.stores.disk import DiskStore
from headscope.stores.objects import ObjectStore
from headscope.stores.opening import fetch, open_permitted, open_store
from headscope.stores.store import Claim, Permit, Store

__all__ = [
    "Claim",
    "DiskStore",
    "ObjectStore",
    "Permit",
    "Store",
    "fetch",
    "open_permitted",
    "open_store",
]
