"""Finds installed fonts with the characters of a figure that the report's own font lacks, such as Chinese ones."""

import contextlib
import functools
import unicodedata
from collections.abc import Collection, Sequence

import matplotlib
from matplotlib.figure import Figure
from matplotlib.font_manager import FontEntry, FontProperties, findfont, findSystemFonts, fontManager
from matplotlib.ft2font import FT2Font
from matplotlib.text import Text

# A character that no font for reading has. A font that has it shows boxes in place of all characters.
_NO_CHARACTER = 0x1FFFE
# How many of the characters without a font a notice names.
_NAMED = 3


def choose_fonts(figure: Figure) -> str:
    """Adds the fonts that the characters of a figure need to its texts, and returns the characters that no font has.

    matplotlib draws each character with the first font of the list that has it.
    """
    texts = [text for text in figure.findobj(Text) if isinstance(text, Text) and text.get_text()]
    characters = set("".join(text.get_text() for text in texts))
    visible = {each for each in characters if unicodedata.category(each) not in ("Cc", "Cf", "Zs", "Zl", "Zp")}
    families = tuple(matplotlib.rcParams["font.family"])
    others = _without(visible, families)
    if not others:
        return ""
    added, boxes = _fonts_with(frozenset(others))
    for text in texts:
        if added and not others.isdisjoint(text.get_text()):
            text.set_fontfamily([*families, *added])
    return boxes


def _without(characters: Collection[str], families: Sequence[str]) -> set[str]:
    """Returns the characters that no font of these families has."""
    left = set(characters)
    for family in families:
        left -= _drawn(_path(family), left)
    return left


@functools.cache
def _path(family: str) -> str | None:
    """Returns the file of a family's font; `None` if it is not installed."""
    with contextlib.suppress(ValueError):
        return str(findfont(FontProperties(family=[family]), fallback_to_default=False))
    return None


def _drawn(path: str | None, characters: Collection[str]) -> set[str]:
    """Returns the characters that a font has."""
    if path is None:
        return set()
    font = FT2Font(path)
    return {each for each in characters if font.get_char_index(ord(each))}


@functools.cache
def _fonts_with(characters: frozenset[str]) -> tuple[tuple[str, ...], str]:
    """Returns families that have the characters, and the characters, sorted, that no installed font has."""
    left, families = set(characters), list[str]()
    for family, path in _installed():
        if drawn := _drawn(path, left):
            families.append(family)
            left -= drawn
        if not left:
            break
    return tuple(families), "".join(sorted(left))


@functools.cache
def _installed() -> list[tuple[str, str]]:
    """Lists the upright font of each family, as its name and its file, those most suitable for labels first."""
    known = {str(entry.fname) for entry in fontManager.ttflist}
    for path in sorted(set(map(str, findSystemFonts())) - known):  # those installed after matplotlib listed the fonts
        with contextlib.suppress(OSError, RuntimeError, NotImplementedError, ValueError):
            fontManager.addfont(path)

    def preference(entry: FontEntry) -> tuple[bool, bool, str, bool, str]:
        name = entry.name.lower()
        is_sans = not ("serif" in name or "mono" in name)
        return not name.startswith("noto sans"), not is_sans, entry.name, entry.weight != 400, str(entry.fname)

    paths: dict[str, str] = {}
    for entry in sorted((entry for entry in fontManager.ttflist if entry.style == "normal"), key=preference):
        paths.setdefault(entry.name, str(entry.fname))
    return [(name, path) for name, path in paths.items() if not FT2Font(path).get_char_index(_NO_CHARACTER)]


def boxes_notice(boxes: Collection[str], unaffected: str, task: str) -> str:
    """Says which characters the figures of a task show as boxes, where they can be read, and what to do."""
    *first, last = sorted(boxes)[:_NAMED]
    named = f"{', '.join(first)} and {last}" if first else last
    such_as = "such as " * (len(boxes) > _NAMED)
    which = f"{len(boxes):,} characters, {such_as}{named}" if first else f"a character, {last}"
    return (
        f"The figures show boxes in place of {which}, because no installed font has them; {unaffected} are not "
        "affected. Install a font for the language, such as one of the Noto fonts (Debian: fonts-noto-cjk, "
        f"fonts-noto-core), and run the {task} again."
    )
