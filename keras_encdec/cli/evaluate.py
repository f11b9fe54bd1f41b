"""encdec-evaluate: scores translations or word alignments.

For translations: BLEU, chrF and TER, and whether they are significantly better than a baseline's. For word alignments,
with --alignments and --reference_alignments: precision, recall and the alignment error rate (AER).
"""

from collections.abc import Sequence

from keras_encdec.cli.command import UsageError
from keras_encdec.cli.flags import Repeated
from keras_encdec.cli.process import say
from keras_encdec.cli.task_command import Arguments, check_paths, task_command
from keras_encdec.smt.evaluation.evaluate import EvaluationOptions


def main(arguments: Arguments, options: EvaluationOptions) -> None:
    """Evaluates as the flags say."""
    aligned = {name: arguments.pop(name) for name in ("alignments", "reference_alignments", "possible_alignments")}
    if any(aligned.values()):
        _evaluate_alignments(aligned, arguments, options)
        return
    if not arguments["references"]:
        raise UsageError("--reference: expected reference translations, or --alignments with --reference_alignments.")
    from keras_encdec.runtime.settings_files import write_json
    from keras_encdec.smt.evaluation.evaluate import check_metrics, evaluate

    systems, json_out = _files_by_system(arguments.pop("systems")), arguments.pop("json_out")
    metrics = arguments.pop("metrics") or ["bleu"]
    check_metrics(metrics)
    files = [path for paths in systems.values() for path in paths]
    check_paths(inputs=[*files, *arguments["baseline"], *arguments["references"]], outputs=[json_out])
    evaluations = evaluate(**arguments, systems=systems, metrics=metrics, options=options)
    if json_out:
        write_json(json_out, [evaluation.to_dict() for evaluation in evaluations])
    if json_out != "-":
        print("\n\n".join(map(str, evaluations)))
    for path in evaluations[0].unlike_references:
        finding = f"{path}: only one of this file and the references has Moses's escapes, such as &apos;"
        say(f"{finding}; give --unescape, or the scores count these words as wrong.")


def _evaluate_alignments(aligned: Arguments, arguments: Arguments, options: EvaluationOptions) -> None:
    from keras_encdec.runtime.settings_files import write_json
    from keras_encdec.smt.evaluation.alignment_error import alignment_table, evaluate_alignments

    given = [flag for flag in ("references", "systems", "baseline", "metrics") if arguments[flag]]
    if given := given + options.replace(encoding=None).changed():
        flag = COMMAND_FLAGS.get(given[0], given[0])
        alignments = next(name for name in aligned if aligned[name])
        raise UsageError(f"found --{flag} with --{alignments}: alignments are evaluated alone; drop one of the two.")
    for name in ("alignments", "reference_alignments"):
        if not aligned[name]:
            raise UsageError(f"found no --{name}, expected --alignments with --reference_alignments.")
    systems = {}
    for name, paths in _files_by_system(aligned["alignments"], "alignments").items():
        if len(paths) > 1:
            raise UsageError(f"--alignments: found the name {name} twice, expected a name for each file.")
        systems[name] = paths[0]
    json_out, reference = arguments["json_out"], aligned["reference_alignments"]
    check_paths(inputs=[*systems.values(), reference, aligned["possible_alignments"]], outputs=[json_out])
    scores = evaluate_alignments(systems, reference, aligned["possible_alignments"])
    if json_out:
        write_json(json_out, [score.to_dict() for score in scores])
    if json_out != "-":
        print(alignment_table(scores))


def _files_by_system(texts: Sequence[str], flag: str = "hypotheses") -> dict[str, list[str]]:
    systems: dict[str, list[str]] = {}
    for text in texts:
        name, equals, path = text.partition("=")
        if not equals or "/" in name:  # the equals sign belongs to a path, as in ./a=b
            name = path = text
        if not name or not path:
            raise UsageError(f"--{flag}={text}: expected NAME=FILE, or a file.")
        systems.setdefault(name, []).append(path)
    return systems


COMMAND_FLAGS = {"references": "reference", "systems": "hypotheses", "metrics": "metric"}
COMMAND = task_command(
    "encdec-evaluate",
    main,
    EvaluationOptions,
    optional={
        "references": Repeated(
            "Reference translations, one per line; may be given once for each of several references."
        ),
        "systems": Repeated(
            "NAME=FILE, the translations of a system, one per line; the name, which has no slash, may be left out. "
            "May be given several times: files of one name are runs of one system, such as tunings with several seeds."
        ),
        "baseline": Repeated(
            "Translations that all systems are compared with; may be given once for each of several runs. Default: no "
            "baseline, and no significance tests."
        ),
        "metrics": Repeated("Metric to compute: bleu, chrf or ter; may be given several times. Default: bleu."),
        "alignments": Repeated(
            "NAME=FILE, the word alignment of a system, in the format of Moses (i-j), of GIZA++ (A3) or of NAACL's "
            "shared task; the name, which has no slash, may be left out. May be given several times. Evaluated "
            "instead of translations."
        ),
        "reference_alignments": "With --alignments: reference links in one of these formats; i?j and P mark possible "
        "links.",
        "possible_alignments": "With --alignments: further links of the reference, all of them possible. Optional.",
        "json_out": "File for all numbers as JSON; - means standard output, without the table. Optional.",
    },
    flag_names=COMMAND_FLAGS,
    example="encdec-evaluate --reference=test.fr --tokenize=none --baseline=test.moses.fr "
    "--hypotheses=scored=test.scored.fr",
    guide="tuning",
)

if __name__ == "__main__":
    COMMAND.run()
