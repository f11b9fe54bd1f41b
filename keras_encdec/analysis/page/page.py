"""The whole page."""

import base64
import functools
import hashlib
from collections.abc import Mapping, Sequence
from importlib import resources

from keras_encdec import __version__
from keras_encdec.analysis.page.elements import escaped, number_text, utf8
from keras_encdec.analysis.page.section import Section


def page(
    title: str, facts: Mapping[str, object], notices: Sequence[str], sections: Sequence[Section]
) -> bytes:
    """One HTML page with its styles, its script, its data and its pictures.

    Nothing is fetched, and by the page's own Content-Security-Policy nothing can be: no script runs but the page's.

    Args:
        title: str. Plain text.
        facts: dict from names to numbers or str, shown at the top.
        notices: list of str. Sentences that the reader is to know first.
        sections: list of Section, in their order.

    Returns:
        bytes, UTF-8.
    """
    style, script = _resource("report.css"), _resource("report.js")
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_hash(style)}' 'unsafe-hashes'; "
        f"script-src '{_hash(script)}'; base-uri 'none'; form-action 'none'"
    )
    shown = "".join(
        f"<div><dt>{escaped(name)}</dt>"
        f"<dd>{escaped(value if isinstance(value, str) else number_text(value))}</dd></div>"
        for name, value in facts.items()
    )
    said = "".join(f'<p class="notice">{escaped(notice)}</p>' for notice in notices)
    links = "".join(f'<li><a href="#{one.name}">{escaped(one.title)}</a></li>' for one in sections)
    body = "".join(_section(one) for one in sections)
    return utf8(
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f'<title>{escaped(title)}</title><link rel="icon" href="data:,"><style>{style}</style></head>\n'
        f'<body><a class="skip" href="#main">Skip to the content</a>\n<header><h1>{escaped(title)}</h1>'
        f'<nav aria-label="Sections"><ul>{links}</ul></nav></header>\n<main id="main"><dl class="facts">{shown}</dl>'
        f"{said}\n{body}</main>\n<footer><p>Made by keras-encdec {__version__}. The folder <code>figures</code> beside "
        "this page has the figures as PNG and SVG, <code>tables</code> the numbers as TSV.</p></footer>\n"
        f"<script>{script}</script></body></html>\n"
    )


def _section(section):
    files = [f"tables/{name}.tsv" for name in section.tables] + [f"figures/{name}.svg" for name in section.pictures]
    files += list(section.files)
    named = ", ".join(f"<code>{escaped(name)}</code>" for name in files)
    named = f"<p><small>Files: {named}</small></p>" if files else ""
    name, heading = section.name, f'<h2 id="{section.name}-title">{escaped(section.title)}</h2>'
    return f'<section id="{name}" aria-labelledby="{name}-title">{heading}{section.body}{named}</section>\n'


@functools.cache
def _resource(name):
    return resources.files("keras_encdec.analysis.page").joinpath(name).read_text(encoding="utf-8")


def _hash(text):
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
