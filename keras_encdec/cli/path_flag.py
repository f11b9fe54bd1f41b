"""A flag that is given alone, or with a file."""

from absl import flags


class PathOrFlagParser(flags.ArgumentParser):
    """Parses the value of a flag that stands alone, `--flag` or `--noflag`, or names a file, `--flag=path`."""

    syntactic_help = "alone, or with a path"

    def parse(self, argument: bool | str) -> bool | str:
        """True, false, or the path."""
        return {"true": True, "false": False, "": False}.get(argument, argument)

    def flag_type(self) -> str:
        """What the help calls it."""
        return "bool or path"


def path_flag(name: str, help: str) -> flags.Flag:
    """Such a flag, false by default; its value is true, false or the path."""
    return flags.Flag(PathOrFlagParser(), flags.ArgumentSerializer(), name, False, help, boolean=True)
