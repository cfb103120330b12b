"""Numbers and tables as Markdown."""


def number(value: float | None) -> str:
    """Three digits, without exponents where they can be avoided."""
    if value is None:
        return "-"
    if value == 0 or abs(value) >= 1e7 or abs(value) < 1e-4:
        return f"{value:.2g}"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def table(head: list[str], rows: list[list[str]]) -> str:
    """Rows of cells under a head, numbers to the right."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
