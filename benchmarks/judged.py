"""Draws of the section "answer" judged by the posterior itself, where that is no Gaussian."""

from datetime import UTC, datetime
from typing import Any

import numpy as np

import ornstein as orn
from benchmarks.markdown import number, table
from ornstein._base.types import Vector

_HEAD = ["", "draws", "means off by, sd", "sds off by", "along any direction", "verdict"]


def judged(post: orn.Posterior, draws: dict[str, Vector]) -> dict[str, Any]:
    """The verdict of ``orn.check`` on every contestant's draws, (chains, draws, D)."""
    records = {name: judgement(post, made) for name, made in draws.items()}
    return {"date": datetime.now(UTC).date().isoformat(), "records": records}


def judgement(post: orn.Posterior, draws: Vector) -> dict[str, Any]:
    """The largest errors, with their Monte-Carlo errors; a note where they are not known."""
    count = {"draws": draws.shape[0] * draws.shape[1]}
    try:
        found = orn.check(post, draws)
    except orn.InputError as refused:
        return count | {"note": str(refused)}
    count["verdict"] = found.verdict
    if not np.isfinite(found.mean_error).all():
        return count | {"note": found.sentence}
    parts = {
        "mean": (found.mean_error, found.mean_mc_error),
        "sd": (found.sd_error, found.sd_mc_error),
    }
    if found.spreads:
        errors = np.array([(one.error, one.mc_error) for one in found.spreads])
        parts["spread"] = (errors[:, 0], errors[:, 1])
    for name, (error, mc) in parts.items():
        worst = int(np.argmax(np.abs(error)))
        count |= {f"{name}_error": float(error[worst]), f"{name}_mc": float(mc[worst])}
    return count


def judged_table(found: dict[str, Any], titles: dict[str, str]) -> list[str]:
    """What the page says of it, and why some were not judged."""
    shown = {name: one for name, one in found["records"].items() if "note" not in one}
    rows = [
        [
            titles.get(name, name) + (f", {one['seconds']:.0f} s" if "seconds" in one else ""),
            f"{one['draws']:,}",
            f"{number(abs(one['mean_error']))} ± {number(one['mean_mc'])}",
            *(_percent(one, part) for part in ("sd", "spread")),
            one["verdict"],
        ]
        for name, one in shown.items()
    ]
    said = f"Judged by the posterior itself, with `orn.check` ({found['date']})"
    notes = [
        f"- {titles.get(name, name)}: {one['note']}"
        for name, one in found["records"].items()
        if "note" in one
    ]
    how = f" {found['how']}" if "how" in found else ""
    return [f"{said}:{how}", table(_HEAD, rows), *(["\n".join(notes)] if notes else [])]


def _percent(one: dict[str, Any], part: str) -> str:
    if f"{part}_error" not in one:
        return "-"
    return f"{one[f'{part}_error']:+.1%} ± {one[f'{part}_mc']:.1%}"
