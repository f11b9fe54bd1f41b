"""The text of `--help`."""

from absl import flags


def flag_help(flag_values: flags.FlagValues, own_module: str) -> str:
    """The flags with their help, in the order and the sections in which they were defined.

    Args:
        flag_values: the flags.
        own_module: str. Module that defines the command's own flags, which come first; the name of another module
            is the heading of its flags.

    Returns:
        str, lines.
    """
    sections = flag_values.flags_by_module_dict()
    general = "keras_encdec.cli.command"
    headings = {own_module: "flags", **{name: name for name in sections if name not in (own_module, general)}}
    headings[general] = "of every command"
    parts = []
    for module, heading in headings.items():
        defined = dict.fromkeys(flag for flag in sections.get(module, []) if flag.name in flag_values)
        if defined:
            parts.append(f"{heading}:\n" + "".join(_lines(flag) for flag in defined))
    return "\n".join(parts)


def _lines(flag):
    name = f"--[no]{flag.name}" if flag.boolean else f"--{flag.name}"
    short = f"-{flag.short_name}," if flag.short_name else ""
    lines = [flags.text_wrap(f"{short}{name}: {flag.help}", indent=" " * 4, firstline_indent="  ")]
    if flag.default is not None and flag.default != "":
        lines.append(f"    (default: {flag.default_as_str.strip(chr(39))})")
    if flag.parser.syntactic_help:
        lines.append(flags.text_wrap(f"({flag.parser.syntactic_help})", indent=" " * 4))
    return "\n".join(lines) + "\n"
