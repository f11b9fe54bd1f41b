"""encdec-doctor: reports what is installed, what the machine can do, and whether models and exports are intact.

The exit status is 0 if all is well, and 1 if something is broken or damaged.
"""

import contextlib
import dataclasses
import json
import os
from collections.abc import Sequence

from keras_encdec.cli.flags import Repeated
from keras_encdec.cli.task_command import Arguments, check_paths, task_command
from keras_encdec.configuration import hyperparameter
from keras_encdec.diagnosis import DiagnosisOptions, Section, diagnose
from keras_encdec.errors import InputError


@dataclasses.dataclass(frozen=True)
class DoctorOptions(DiagnosisOptions):
    """Options of the command: those of the diagnosis, and how it is shown."""

    json: bool = hyperparameter(False, "Print JSON instead of text, after the last check.")


class _SectionPrinter:
    """Prints each section when it is done, one value per line. The sections of all checked paths share one heading."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._title, self._paths = "", paths

    def show(self, section: Section) -> None:
        rows = list(section.rows())
        if section.title != self._title:
            self._title = section.title
            print(f"\n{section.title}" if section.title != "Versions" else section.title)
        labels = [label for label, _ in rows]
        width = max(map(len, [*labels, *self._paths] if set(labels) <= set(self._paths) else labels))
        for label, value in rows:
            print(f"  {label:{width}}  {value}", flush=True)


def _check_exists(path: str) -> None:
    from keras_encdec.model_config import model_path
    from keras_encdec.runtime.files import is_url

    if not is_url(path) and not os.path.lexists(model_path(path)):
        expected = "expected a model directory, an export or the shards of a job"
        raise InputError("found no such file or directory", expected, "check --path", path)


def main(arguments: Arguments, options: DoctorOptions) -> int:
    """Examines as the flags say."""
    shown = DiagnosisOptions(all_backends=options.all_backends)
    folder, output = arguments["folder"] or ".", arguments["output"]
    if not os.path.isdir(folder):
        raise InputError("found no such directory", "expected one to show the free space of", "check --folder", folder)
    with contextlib.suppress(ImportError):  # the diagnosis says which libraries are missing
        check_paths(outputs=[output])
        for path in arguments["path"]:
            _check_exists(path)
    show = (lambda section: None) if options.json else _SectionPrinter(arguments["path"]).show
    diagnosis = diagnose(shown, paths=arguments["path"], folder=folder, show=show)
    if options.json:
        print(json.dumps(diagnosis.to_dict(), indent=2, ensure_ascii=False))
    else:
        print("\nProblems", *(diagnosis.problems or ["none"]), sep="\n  ", flush=True)
    if output:
        # Imported here, so that the command reports missing libraries instead of failing at its start.
        from keras_encdec.runtime.settings_files import write_json

        write_json(output, diagnosis.to_dict())
    return 1 if diagnosis.problems else 0


COMMAND = task_command(
    "encdec-doctor",
    main,
    DoctorOptions,
    optional={
        "path": Repeated(
            "Model directory, export, or folder of a sharded job (.shards) to check: are its files complete and "
            "unchanged? May be given several times."
        ),
        "folder": "Folder whose free disk space is shown. Default: the working directory.",
        "output": "File to which everything is also written as JSON.",
    },
    example="encdec-doctor --path=model",
    guide="troubleshooting",
)

if __name__ == "__main__":
    COMMAND.run()
