"""A phrase table for reports of the toy models, some words of which are HTML."""

SOURCES = [
    ("le chat &lt;b&gt; R&amp;D", 90),
    ("la maison &lt;b&gt; été", 70),
    ("le chat la maison", 50),
    ("l&apos; été la chat", 3),
    ("la maison le chat", 2),
    ("le chat &#91;X&#93; été", 1),
    ("le chat", 400),
    ("la maison", 300),
    ("&#124;", 9),
]
TARGETS = ["the cat", "the house &lt;b&gt;", "R&amp;D", "&apos;s summer", "the &lt;b&gt; cat house"]


def write_table(path):
    """Writes a Moses phrase table of nine sources and five targets each; returns the path."""
    lines = []
    for number, (source, count) in enumerate(SOURCES):
        for place, target in enumerate(TARGETS):
            probability = (1 + (number + 2 * place) % 5) / 15
            lines.append(f"{source} ||| {target} ||| 0.1 0.2 {probability:.6g} 0.3 ||| 0-0 ||| 9 {count} 1 ||| |||\n")
    path.write_text("".join(lines), encoding="utf-8")
    return path
