"""encdec-evaluate: BLEU, chrF and TER of translations, and whether they are significantly better than a baseline's."""

import sys
from collections.abc import Sequence

from keras_encdec.cli.command import UsageError
from keras_encdec.cli.flags import Repeated
from keras_encdec.cli.task_command import Arguments, task_command
from keras_encdec.smt.evaluation.evaluate import EvaluationOptions


def main(arguments: Arguments, options: EvaluationOptions) -> None:
    """Evaluates as the flags say."""
    from keras_encdec.runtime.files import check_distinct_files
    from keras_encdec.runtime.settings_files import write_json
    from keras_encdec.smt.evaluation.evaluate import evaluate

    systems, json_out = _files_by_system(arguments.pop("systems")), arguments.pop("json_out")
    metrics = arguments.pop("metrics") or ["bleu"]
    files = [path for paths in systems.values() for path in paths]
    for path in [*files, *arguments["baseline"], *arguments["references"]]:
        check_distinct_files(path, json_out)
    evaluations = evaluate(**arguments, systems=systems, metrics=metrics, options=options)
    if json_out:
        write_json(json_out, [evaluation.to_dict() for evaluation in evaluations])
    if json_out != "-":
        print("\n\n".join(map(str, evaluations)))
    for path in evaluations[0].unlike_references:
        finding = (
            f"{path}: of this file and the references, one has Moses's escapes, such as &apos;, the other has none"
        )
        print(f"{finding}; give --unescape, or the scores count these words as wrong.", file=sys.stderr)


def _files_by_system(texts: Sequence[str]) -> dict[str, list[str]]:
    systems: dict[str, list[str]] = {}
    for text in texts:
        name, _, path = text.partition("=") if "=" in text else (text, "", text)
        if not name or not path:
            raise UsageError(f"--hypotheses={text}: expected NAME=FILE, or a file.")
        systems.setdefault(name, []).append(path)
    return systems


COMMAND = task_command(
    "encdec-evaluate",
    main,
    EvaluationOptions,
    required={
        "references": Repeated("Reference translations, one a line; may be given for each of several references.")
    },
    optional={
        "systems": Repeated(
            "NAME=FILE, the translations of a system, one a line; the name may be left out. May be given several "
            "times: files of one name are runs of one system, such as tunings with several seeds."
        ),
        "baseline": Repeated(
            "Translations that all systems are compared with; may be given for each of several runs. Default: none, "
            "without significance tests."
        ),
        "metrics": Repeated("Metric to compute: bleu, chrf or ter; may be given several times. Default: bleu."),
        "json_out": "File for all numbers as JSON; - is the standard output, without the table. Optional.",
    },
    flag_names={"references": "reference", "systems": "hypotheses", "metrics": "metric"},
    example="encdec-evaluate --reference=test.fr --tokenize=none --baseline=test.moses.fr "
    "--hypotheses=scored=test.scored.fr",
    guide="tuning",
)

if __name__ == "__main__":
    COMMAND.run()
