"""The catalog of a restored directory: that of the point, without what is not restored."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import closing
from pathlib import Path

from appliance.catalog.catalog import Catalog
from appliance.catalog.log_directory_rows import LogDirectoryRows
from appliance.data_dir.partition_names import Key
from appliance.process import owner_only
from appliance.topics.topic_rows import TopicRows


def restore_catalog(
    path: Path, data: bytes, restored: Collection[Key], is_wanted: Callable[[str], bool]
) -> list[str]:
    """Which partitions it has that were not restored: they will be empty."""
    for each in path.parent.glob(f"{path.name}*"):
        each.unlink()  # of a restore that was killed
    owner_only.write(path, data)
    with closing(Catalog.open(path)) as catalog:
        rows = TopicRows(catalog)
        rows.begin_deletions([row.name for row in rows.all() if not is_wanted(row.name)])
        # Their directories are not here.
        rows.end_deletions([row.name for row in rows.deletions()])
        LogDirectoryRows(catalog).forget_all()  # all of it is in one directory now
        keys = [(row.name, number) for row in rows.all() for number in range(row.partitions)]
        return [f"{topic}-{number}" for topic, number in keys if (topic, number) not in restored]


def make_own(path: Path, cluster_id: str, next_producer_id: int) -> None:
    """What a cluster had is one box's now, whoever had which replica: all of it is here."""
    with closing(Catalog.open(path)) as catalog:
        rows = TopicRows(catalog)
        if rows.has_replicated():
            rows.leave_cluster(next_producer_id)
            catalog.run("UPDATE cluster SET id = ?", (cluster_id,))
