"""The page of results, ``docs/benchmarks.md``, written from ``benchmarks/results.json``."""

from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks import (
    coverage_page,
    duel_page,
    families_page,
    figures,
    learning_page,
    mixed_page,
    times_page,
    walk_page,
)
from benchmarks.judged import judged_table
from benchmarks.markdown import number, table
from benchmarks.ratios import best_peer

_DRAWN = ("rates", "answer", "growth")
_WRITTEN = {
    "learning": learning_page,
    "families": families_page,
    "duel": duel_page,
    "mixed": mixed_page,
    "coverage": coverage_page,
    "walk": walk_page,
    "times": times_page,
}
DOCS = Path(__file__).resolve().parents[1] / "docs"
Section = dict[str, Any]


def write(results: dict[str, Section], docs: Path = DOCS) -> list[Path]:
    """Write the page and a figure per section; returns what was written."""
    names = [name for name in _DRAWN if name in results]
    drawn = [figures.draw(name, results[name], docs / "benchmarks") for name in names]
    parts = ["# Benchmarks", _ratios(results), _HOW_TO, _machines(results)]
    for name in names:
        parts += [section(name, results[name]), f"![{name}](benchmarks/{name}.svg)"]
    parts += [section(name, results[name]) for name in _WRITTEN if name in results]
    page = docs / "benchmarks.md"
    page.write_text("\n\n".join(part for part in parts if part) + "\n")
    return [page, *drawn]


def section(name: str, found: Section) -> str:
    """A section as Markdown."""
    if name in _WRITTEN:
        return _WRITTEN[name].as_markdown(found)
    return {"rates": _rates, "answer": _answer, "growth": _growth}[name](found)


_HOW_TO = """## How to run it again

```
ORNSTEIN_DATA=folder python -m benchmarks          # everything, then this page
python -m benchmarks answer page                   # one section, then this page
python -m benchmarks --quick                       # short runs, for trying out
python -m benchmarks references                    # the long runs that draws are compared with
```

Chains run in single precision. Compilation is measured separately and not counted, except for
learning. The speed of a shared machine drifts; trust ratios of figures from the same run. Sections
dated before 2026-11-18 were measured with `exact`, the default until then."""


def _ratios(results: dict[str, Section]) -> str:
    lines = ["## In short"]
    if any(found.get("quick") for found in results.values()):
        lines.append("**These figures are from a quick run, for trying out only.**")
    if "rates" in results:
        lines += [_rate_ratios(results["rates"]), _RATE_LIMITS, _room(results["rates"])]
    if "answer" in results:
        lines += [_ess_ratios(results["answer"]), _answer_ratios(results["answer"])]
        lines.append(_when_not(results["answer"]))
    if "growth" in results:
        lines.append(_growth_ratio(results["growth"]))
    return "\n\n".join(lines)


def _rate_ratios(found: Section) -> str:
    rows = [
        [name, *(number(work["ratios"].get(key)) for key in _RATE_RATIOS)]
        for name, work in found["workloads"].items()
    ]
    return "Steps per second of constant SGD, as a ratio:\n\n" + table(
        ["", *_RATE_RATIOS.values()], rows
    )


_RATE_RATIOS = {
    "windows over best peer": "windows / the faster of blackjax and optax",
    "independent over best peer": "independent rows / the same",
    "windows over limit independent": "windows / native code with independent rows",
    "windows over limit windows": "windows / native code with windows never redrawn",
    "independent over limit independent": "independent rows / native code with the same",
}

_RATE_LIMITS = """The native loops are the upper limit: the same steps written for LLVM (numba),
vectorised, without a framework. On W1 a step is half a microsecond in about seven small kernels,
which XLA would start one by one; the loop is compiled into a single kernel instead, as the flag
below does for all small loops. On W3 a step is two products with a 100 x 784 matrix: independent
rows nearly reach the speed of the native loop, and optax and blackjax come close, so large ratios
are not possible there.

The most that any loop could gain over the faster of blackjax and optax, and what ornstein gains:"""


def _room(found: Section) -> str:
    """The most that any loop could be ahead of the peers, and what is made of it."""
    rows = []
    for name, work in found["workloads"].items():
        rates = {key: rate["median"] for key, rate in work["rates"].items()}
        peer = best_peer(rates)
        assert peer is not None
        flag = found.get("flag", {}).get("workloads", {}).get(name)
        best = max(rates["sgd windows"], rates["sgd independent"])
        flagged = max(flag["rates"][key]["median"] for key in _OURS) if flag else None
        cells = (
            rates["limit windows"] / peer,
            best / peer,
            flagged and flagged / peer,
        )
        rows.append([name, *map(number, cells)])
    head = ["", "native code", "ornstein", "ornstein, with the flag"]
    return table(head, rows) + "\n\n" + _ROOM


_OURS = ("sgd windows", "sgd independent")
_ROOM = """On W3 no loop can be four times as fast as optax: the one without a framework is about
twice as fast. Unrolling the scan did not help there either: it has more kernels to start."""


def _ess_ratios(found: Section) -> str:
    """Effective draws per second over NUTS."""
    rows = []
    for problem in found["problems"].values():
        rates = {name: record.get("ess_per_second") for name, record in problem["records"].items()}
        cells = [
            number(rates[ours] / rates[nuts]) if rates[ours] and rates[nuts] else "-"
            for nuts in ("nuts", "nuts_given_metric")
            for ours in ("ours", "ours_plain")
        ]
        rows.append([problem["title"], *cells])
    head = [
        "",
        "control variates / NUTS (window adaptation)",
        "plain / the same",
        "control variates / NUTS with Laplace's metric",
        "plain / the same",
    ]
    return (
        "Effective draws per second while sampling (bulk ESS of the worst parameter), relative to "
        "NUTS (`-`: its warm-up alone exceeds the time limit):\n\n"
        + table(head, rows)
        + "\n\n"
        + _PLAIN
    )


_PLAIN = """Plain minibatches need about N rows for an effective draw, whatever the batch size.
That is as many as one gradient of all rows, and NUTS computes six or seven of those for a draw. So
this is the ratio to expect if both read rows equally fast, and the batch size does not change it.
On protein an effective draw reads 51,780 rows, 6.3 x 10^8 per second on two cores; five times the
speed of NUTS would need 10^9, which is what the native loop reads on W4 from windows that it never
redraws."""


def _answer_ratios(found: Section) -> str:
    rivals = [name for name in found["contestants"] if name != "ours"]
    rows = []
    for problem in found["problems"].values():
        records = problem["records"]
        ours = records["ours"]["seconds_to_kl"]
        rows.append([problem["title"], *(_ratio(records[name], ours) for name in rivals)])
    head = ["", *(found["contestants"][name] for name in rivals)]
    return (
        "Seconds from call to answer, divided by those of ornstein with control variates (above 1: "
        "ornstein is faster; `>`: not reached within the time limit):\n\n" + table(head, rows)
    )


def _ratio(record: Section, ours: float | None) -> str:
    spent = record["setup_seconds"] + record["sampling_seconds"]
    if ours is None:
        return "-"
    if record["seconds_to_kl"] is not None:
        return number(record["seconds_to_kl"] / ours)
    return f"> {number(spent / ours)}" if spent else "not run"


def _when_not(found: Section) -> str:
    faster = {
        name: [
            title
            for title, problem in found["problems"].items()
            if _is_faster(problem["records"][name], problem["records"]["ours"])
        ]
        for name in ("laplace", "svi")
    }
    laplace = ", ".join(faster["laplace"]) or "none of these problems"
    svi = ", ".join(faster["svi"]) or "none of these problems"
    return f"""### When something else is the better tool

- **Laplace: faster on {laplace}.** The default plan needs the optimum and the
  Hessian there, and these two *are* the Laplace approximation: drawing from it costs almost
  nothing more. If you want Gaussian draws and no more, use it. What the chains add: they follow
  the model's own gradients, and so a posterior that is not Gaussian
  ([families](#families-posteriors-that-are-not-gaussian)).
- **Full-rank SVI: faster on {svi}.** Prefer it for a guide other than a
  Gaussian at the mode, or as a part of a larger model.
- **NUTS** draws from the posterior itself, whatever its shape. The answers here are compared with
  the Gaussian at the optimum: the posterior of wine and protein, close to that of skin, and not
  that of covertype, where draws of the posterior itself are "not reached"
  ([judged](#answer-seconds-from-rows-to-a-posterior)). Posteriors that are not Gaussian are below,
  among them some where NUTS is the better tool."""


def _is_faster(record: Section, ours: Section) -> bool:
    if record["seconds_to_kl"] is None:
        return False
    return ours["seconds_to_kl"] is None or record["seconds_to_kl"] < ours["seconds_to_kl"]


def _growth_ratio(found: Section) -> str:
    """Costs from size to size; and rows read a second, which memory limits, against one pass."""
    sizes = sorted({entry["rows"] for entry in found["rows"]})
    lines = []
    for model in ("linear", "logistic"):
        sweep = {entry["rows"]: entry for entry in found["rows"] if entry["model"] == model}
        for name, title in found["contestants"].items():
            records = [sweep[size]["records"][name] for size in sizes]
            costs = [record.get("seconds_per_ess") for record in records]
            factors = [number(b / a) if a and b else "-" for a, b in pairwise(costs)]
            whole = costs[-1] / costs[0] if costs[0] and costs[-1] else None
            read = None
            if costs[-1] and records[-1].get("rows_per_ess"):
                one_pass = sizes[-1] / sweep[sizes[-1]]["pass_seconds"]
                read = records[-1]["rows_per_ess"] / costs[-1] / one_pass
            lines.append([model, title, *factors, number(whole), number(read)])
    head = ["", "", *(f"{few:,} to {many:,}" for few, many in pairwise(sizes))]
    return (
        "How the seconds per effective draw grow from one table size to the next; and the rows "
        f"read per second at {sizes[-1]:,} rows, relative to a plain pass over them, which is "
        "limited by memory:\n\n"
        + table([*head, "in all", "rows per second"], lines)
        + "\n\n"
        + _MEMORY
    )


_MEMORY = """Plain minibatches read about as many rows for an effective draw as the table has, at
every size. Their cost grows by more than that because 10,000 rows fit a core's cache and ten
million do not: from memory they are read nearly as fast as by a plain pass, permutations included.
With control variates the cost hardly grows."""


def _machines(results: dict[str, Section]) -> str:
    lines = []
    for name, found in results.items():
        of = found["machine"]
        versions = ", ".join(f"{which} {v}" for which, v in of["versions"].items() if v)
        lines.append(
            f"- {name}, {found['date']}: {of['cpu']}, {of['cores']} cores, {of['memory_gb']} GB, "
            f"{of['os']}, Python {of['python']}; {versions}"
            + (f"; XLA_FLAGS `{of['xla_flags']}`" if of["xla_flags"] else "")
        )
    return "## Machine and versions\n\n" + "\n".join(lines)


def _rates(found: Section) -> str:
    workloads = found["workloads"]
    names = list(dict.fromkeys(name for work in workloads.values() for name in work["rates"]))
    rows = [
        [name, *(_rate(work["rates"].get(name)) for work in workloads.values())] for name in names
    ]
    for name, foreign in found.get("foreign", {}).items():
        rates = foreign.get("rates", {})
        rows.append([f"{name} (own process)", *(number(rates.get(w)) for w in workloads)])
    head = ["", *(f"{n}: N={w['rows']:,}, S={w['batch_size']:,}" for n, w in workloads.items())]
    text = f"""## Rates: steps per second

W1 linear regression (wine), W2 logistic (skin), W3 softmax (MNIST), W4 is W1 with 64 chains, whose
steps are added up. Every tenth iterate is kept. Medians of {found["repeats"]} interleaved rounds,
quartiles in brackets. `limit` is a hand-written loop compiled to native code.

{table(head, rows)}"""
    if found.get("flag", {}).get("workloads"):
        flagged = found["flag"]["workloads"]
        rows = [
            [name, *(number(value) for value in work["ratios"].values())]
            for name, work in flagged.items()
        ]
        head = ["", *next(iter(flagged.values()))["ratios"]]
        text += f"\n\nWith `XLA_FLAGS={found['flag']['xla_flags']}`:\n\n{table(head, rows)}"
    over, second = found.get("overhead"), found.get("second_call")
    if over and second:
        text += (
            f"\n\nA call of `sample` with a progress bar reaches {1 / over['ratio']:.2f} of the "
            f"speed of its bare compiled loop. A second call takes {second['with_plan_ms']:.0f} ms "
            "in addition to its loop with a given plan, and "
            f"{second['with_planning_ms']:.0f} ms with planning."
        )
    return text


def _rate(row: Section | None) -> str:
    if row is None:
        return ""
    return f"{number(row['median'])} ({number(row['low'])}-{number(row['high'])})"


def _answer(found: Section) -> str:
    parts = [
        f"""## Answer: seconds from rows to a posterior

The answer is reached when the draws' mean and covariance are within {found["target_kl"]} nats of
the reference, the Gaussian at the optimum. Beyond 50 parameters, Monte-Carlo error alone keeps any
affordable number of exact draws above that. There, the divergence minus its Monte-Carlo floor
(estimated from the draws by batch means), divided by the number of parameters, must be at most
{found["target_per_parameter"]:.4f} (0.05 nats over wine's eleven parameters). Runs are doubled in
length; the time is that of the first run that is long enough, setup and sampling. SVI's Gaussian is
compared directly.

The reference is the posterior itself for the linear regressions only. Elsewhere "not reached" says
that draws differ from that Gaussian, not that they are wrong, and Laplace reaches it by definition.
Covertype's "not reached" of 2026-11-16 is one of these: rows say little on some of its 378
parameters, those of rare classes and indicators. Where the posterior is not Gaussian, draws are
judged a second time, by the posterior itself.

Setup is everything before the first draw that counts: optimum, Hessian, plan, warm-up, tuning. All
contestants start at the optimum, and the time to find it is counted. ESS is the bulk ESS of the
worst parameter; for a chain that does not sample the posterior (see its KL) it means little. "To
1,000" is the setup plus the time of a thousand effective draws."""
    ]
    for problem in found["problems"].values():
        rows = [
            [
                found["contestants"][name],
                number(record["seconds_to_kl"]) if record["seconds_to_kl"] else "not reached",
                _kl(record),
                number(record["setup_seconds"] or None),
                number(record["sampling_seconds"] or None),
                number(record.get("ess")),
                number(record.get("ess_per_second")),
                number(record.get("ess_per_second_with_setup")),
                number(record.get("seconds_to_1000_ess")),
            ]
            for name, record in problem["records"].items()
        ]
        parts.append(
            f"### {problem['title']}: {problem['rows']:,} rows, "
            f"{problem['parameters']} parameters, {problem['budget_seconds']:.0f} s to sample"
        )
        parts += [table(_ANSWER_HEAD, rows), *_answer_notes(found, problem)]
        if "judged" in problem:
            parts += judged_table(problem["judged"], found["contestants"])
    return "\n\n".join(parts)


_ANSWER_HEAD = [
    "",
    "seconds to answer",
    "KL at the end (floor)",
    "setup, s",
    "sampling, s",
    "ESS",
    "ESS/s",
    "ESS/s with setup",
    "to 1,000 ESS, s",
]


def _kl(record: Section) -> str:
    if record.get("kl") is None:
        return "-"
    return f"{number(record['kl'])} ({number(record['floor'])})"


def _answer_notes(found: Section, problem: Section) -> list[str]:
    """What the table has no room for."""
    notes = []
    for name, record in problem["records"].items():
        said = []
        if "gradient_seconds" in record:
            said.append(f"a gradient of all rows takes {1e3 * record['gradient_seconds']:.2g} ms")
        if "leapfrogs_per_draw" in record:
            said.append(f"{record['leapfrogs_per_draw']:.1f} leapfrog steps per draw")
        if "batch_size" in record:
            said.append(
                f"batches of {record['batch_size']:,}, planned in "
                f"{record['planning_seconds']:.2g} s, {number(record.get('rows_per_ess'))} rows "
                "per effective draw"
            )
        if "tuning_seconds" in record:
            said.append(f"{record['tuning_seconds']:.0f} s of the setup: grid of step sizes")
        if "steps" in record:
            said.append(f"{record['steps']:,} steps")
        if "note" in record:
            said.append(record["note"])
        if said:
            notes.append(f"- {found['contestants'][name]}: {'; '.join(said)}.")
    return ["\n".join(notes)] if notes else []


def _growth(found: Section) -> str:
    parts = [
        """## Growth: the cost of an effective draw

Synthetic regressions with mildly correlated Gaussian columns. With control variates the library
chooses the batch size; plain batches are a fiftieth of the rows; NUTS is given the posterior
covariance as its metric, its best case. The cost is that of sampling, by the bulk ESS of the worst
parameter; setup is the plan (or the Laplace fit and the warm-up). A pass is one dot product with
every row. Where a pass grows faster than the number of rows, the rows no longer fit a cache, which
slows down everything that reads them."""
    ]
    for sweep, size in (("rows", "rows"), ("columns", "parameters")):
        titles = found["contestants"]
        head = ["", size, "a pass, ms"]
        for title in titles.values():
            head += [f"{title}: ms/ESS", "rows/ESS", "setup, s"]
        rows = []
        for entry in found[sweep]:
            row = [entry["model"], f"{entry[size]:,}", number(1e3 * entry["pass_seconds"])]
            for name in titles:
                record = entry["records"][name]
                cost = record.get("seconds_per_ess")
                row += [
                    number(1e3 * cost) if cost else record.get("note", "-").split(":")[0],
                    number(record.get("rows_per_ess")),
                    number(record["setup_seconds"] or None),
                ]
            rows.append(row)
        parts.append(table(head, rows))
    return "\n\n".join(parts)
