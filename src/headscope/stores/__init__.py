"""Stores: where a run's folder is kept. The disk is one, an object store (`s3://`, `gs://`) another."""

from headscope.stores.disk import DiskStore
from headscope.stores.objects import ObjectStore
from headscope.stores.opening import fetch, is_url, open_store
from headscope.stores.store import Claim, Store

__all__ = ["Claim", "DiskStore", "ObjectStore", "Store", "fetch", "is_url", "open_store"]
