"""Whether a run read all of its plan: rows, dead letters and offsets without a record add up.

It is asked before the commit, so that a run that lost something commits nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from appliance_spark import export_manifest
from appliance_spark.export_layout import ExportFailed
from appliance_spark.export_plan import Plan
from appliance_spark.export_write import LETTERS_MAX


def balance(plan: Plan, done: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Compares plan and results per partition. The run fails if they differ."""
    rows, problems = [], []
    for topic in plan["topics"]:
        for part in topic["partitions"]:
            mine = [each for each in done if (each["topic"], each["partition"])
                    == (topic["topic"], part["partition"])]
            row = {"topic": topic["topic"], **part, **_counted(mine)}
            rows.append(row)
            wanted = part["to"] - part["from"]
            found = row["rows"] + row["dead_letters"] + row["missing"]
            if wanted != found:
                problems.append(
                    f"{topic['topic']} partition {part['partition']}: {wanted} offsets from "
                    f"{part['from']} to {part['to']}, but {row['rows']} rows, "
                    f"{row['dead_letters']} dead letters and {row['gone']} make {found}"
                )
    if problems:
        raise ExportFailed("the run does not balance: " + "; ".join(problems))
    return rows


def check_compacted(partitions: list[dict[str, Any]], is_compacted: Callable[[str], bool]) -> None:
    """Only compaction leaves offsets in no batch. A mirror fills such a gap by empty batches."""
    suspect = [part for part in partitions if part["in_no_batch"]]
    thinned = {topic for topic in {part["topic"] for part in suspect} if is_compacted(topic)}
    problems = [
        f"{part['topic']} partition {part['partition']}: {part['in_no_batch']} offsets from "
        f"{part['from']} to {part['to']} are not in the log"
        for part in suspect if part["topic"] not in thinned
    ]
    if problems:
        raise ExportFailed(
            "; ".join(problems) + ", and the cleanup.policy is not compact. If it was once, or "
            "what is left is wanted: --accept-loss goes on")


class TooManyDead(ExportFailed):
    """With the first of them, which are reported beside the text: they quote records."""

    letters: list[dict[str, Any]]


def letters_of(plan: Plan, done: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first of each split, so that one split does not hide the others."""
    many = sum(len(each["letters"]) for each in done)
    most = LETTERS_MAX if many <= LETTERS_MAX else max(1, LETTERS_MAX // len(done))
    ids = {topic["topic"]: topic["topic_id"] for topic in plan["topics"]}
    found = [{"topic": each["topic"], "topic_id": ids[each["topic"]],
              "partition": each["partition"], **letter}
             for each in done for letter in each["letters"][:most]]
    return found[:LETTERS_MAX]


def check_dead_letters(
    partitions: list[dict[str, Any]], share: float, letters: list[dict[str, Any]]
) -> None:
    """Before the commit: an uncommitted range is read again after the schema is corrected."""
    dead = sum(part["dead_letters"] for part in partitions)
    total = dead + sum(part["rows"] for part in partitions)
    if dead > share * total:
        error = TooManyDead(
            f"{dead} of {total} records are dead letters, at most a share of {share} may be: "
            "nothing was committed. Is the schema theirs? --dead-letter-share, or "
            "dead_letter_share in a definition, takes more")
        error.letters = letters
        raise error


def _counted(splits: list[dict[str, Any]]) -> dict[str, Any]:
    gone = {name: sum(each["gone"].get(name, 0) for each in splits)
            for name in ("markers", "aborted", "compacted", "damaged")}
    damaged = [each for split in splits for each in split["gone"].get("damaged_ranges", [])]
    return {
        "rows": sum(each["rows"] for each in splits),
        "dead_letters": sum(each["dead_letters"] for each in splits),
        "gone": gone,
        "missing": sum(gone.values()),
        "in_no_batch": sum(each["gone"].get("in_no_batch", 0) for each in splits),
        **({"damaged": sorted(damaged)} if damaged else {}),
        "hash": export_manifest.hash_of(splits),
        "min_offset": min((e["min_offset"] for e in splits if e["min_offset"] >= 0), default=None),
        "max_offset": max((e["max_offset"] for e in splits if e["max_offset"] >= 0), default=None),
    }
