"""encdec-evaluate: BLEU, chrF and TER of translations, and whether they are significantly better than a baseline's."""

import sys

from absl import flags

from keras_encdec.cli.command import Command, UsageError

METRICS = ["bleu", "chrf", "ter"]


def define_flags(flag_values: flags.FlagValues) -> None:
    """Defines the flags of `encdec-evaluate`."""
    define = {"flag_values": flag_values}
    flags.DEFINE_multi_string(
        "reference", None, "Reference translations, one a line; may be given for each of several references.", **define
    )
    flags.DEFINE_multi_string(
        "hypotheses",
        [],
        "NAME=FILE, the translations of a system, one a line; the name may be left out. May be given often: files of "
        "one name are runs of one system, such as tunings with several seeds.",
        **define,
    )
    flags.DEFINE_multi_string(
        "baseline",
        [],
        "Translations that all systems are compared with; may be given for each of several runs. "
        "Default: none, without significance tests.",
        **define,
    )
    flags.DEFINE_multi_enum("metric", ["bleu"], METRICS, "What is computed; may be given often.", **define)
    flags.DEFINE_enum(
        "tokenize",
        "13a",
        ["none", "13a", "intl", "char", "zh"],
        "Sacrebleu's tokenizer for BLEU: none for text in tokens, 13a for raw text.",
        **define,
    )
    flags.DEFINE_bool("unescape", False, "Remove Moses's escapes, such as &apos;, from all texts.", **define)
    flags.DEFINE_integer("bootstrap_samples", 1000, "Bootstrap samples of the test set.", lower_bound=1, **define)
    flags.DEFINE_integer("trials", 10_000, "Trials of approximate randomization.", lower_bound=1, **define)
    flags.DEFINE_integer("seed", 12345, "Random seed of both tests.", lower_bound=0, **define)
    flags.DEFINE_string("encoding", None, "Encoding of all files. Default: UTF-8.", **define)
    flags.DEFINE_string(
        "json_out",
        None,
        "File for all numbers as JSON; - is the standard output, without the table. Optional.",
        **define,
    )


def main(flag_values: flags.FlagValues) -> None:
    """Evaluates as the flags say."""
    from keras_encdec.runtime.files import check_distinct_files
    from keras_encdec.runtime.settings_files import write_json
    from keras_encdec.smt.evaluation.evaluate import evaluate

    systems = {}
    for text in flag_values.hypotheses:
        name, _, path = text.partition("=") if "=" in text else (text, "", text)
        if not name or not path:
            raise UsageError(f"--hypotheses={text}: expected NAME=FILE, or a file.")
        systems.setdefault(name, []).append(path)
    if not systems and not flag_values.baseline:
        raise UsageError("found neither --hypotheses nor --baseline, expected translations to score.")
    files = [path for paths in systems.values() for path in paths]
    for path in [*files, *flag_values.baseline, *flag_values.reference]:
        check_distinct_files(path, flag_values.json_out)
    evaluations = evaluate(
        flag_values.reference,
        systems,
        flag_values.baseline,
        flag_values.metric,
        **{
            name: flag_values[name].value
            for name in ("tokenize", "unescape", "encoding", "bootstrap_samples", "trials", "seed")
        },
    )
    if flag_values.json_out:
        write_json(flag_values.json_out, [evaluation.to_dict() for evaluation in evaluations])
    if flag_values.json_out != "-":
        print("\n\n".join(map(str, evaluations)))
    for path in evaluations[0].unlike_references:
        found = f"{path}: of this file and the references, one has Moses's escapes, such as &apos;, the other has none"
        print(f"{found}; give --unescape, or the scores count these words as wrong.", file=sys.stderr)


COMMAND = Command("encdec-evaluate", define_flags, main, required=("reference",))

if __name__ == "__main__":
    COMMAND.run()
