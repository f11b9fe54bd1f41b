"""The flags of a command as `--help` lists them."""

from collections.abc import Collection

from absl import flags

# The module under whose name absl lists the flags of every command.
COMMAND = "keras_encdec.cli.command"


def flag_help(flag_values: flags.FlagValues, own_module: str, required: Collection[str] = ()) -> str:
    """Formats flags for `--help`, those that must be given first, the others in the order in which they were defined.

    Args:
        flag_values: the flags.
        own_module: str. Name of the module under which absl lists the command's own flags. They are the first section
            after the required ones. The heading of another section is the name under which absl lists its flags. The
            flags that every command has are the last section.
        required: names of the flags that must be given. Defaults to none.

    Returns:
        str, lines.
    """
    sections = flag_values.flags_by_module_dict()
    headings = {own_module: "flags", **{name: name for name in sections if name not in (own_module, COMMAND)}}
    headings[COMMAND] = "flags of every command"
    parts = {"required flags": [flag_values[name] for name in required]}
    for module, heading in headings.items():
        defined = dict.fromkeys(flag for flag in sections.get(module, []) if flag.name in flag_values)
        parts[heading] = [flag for flag in defined if flag.name not in required]
    return "\n".join(f"{heading}:\n" + "".join(map(_lines, defined)) for heading, defined in parts.items() if defined)


def _lines(flag: flags.Flag) -> str:
    name = f"--[no]{flag.name}" if flag.boolean else f"--{flag.name}"
    short = f"-{flag.short_name}," if flag.short_name else ""
    lines = [flags.text_wrap(f"{short}{name}: {flag.help}", indent=" " * 4, firstline_indent="  ")]
    if flag.default_as_str is not None and flag.default != "" and flag.default is not False:
        lines.append(f"    (default: {flag.default_as_str.strip(chr(39))})")
    if flag.parser.syntactic_help:
        lines.append(flags.text_wrap(f"({flag.parser.syntactic_help})", indent=" " * 4))
    return "\n".join(lines) + "\n"
