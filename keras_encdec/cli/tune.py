"""encdec-tune: finds weights for the features of n-best lists, by MERT, batch MIRA or PRO."""

import sys

from absl import flags

from keras_encdec.cli.command import Command, UsageError
from keras_encdec.cli.flags import tell_missing, weights_given


def define_flags(flag_values: flags.FlagValues) -> None:
    """Defines the flags of `encdec-tune`."""
    define = {"flag_values": flag_values}
    flags.DEFINE_multi_string(
        "nbest",
        None,
        "N-best list to tune on, plain or gzipped; may be given often, for lists of several runs of a decoder.",
        **define,
    )
    flags.DEFINE_multi_string(
        "reference", None, "Reference translations, one a line; may be given for each of several references.", **define
    )
    flags.DEFINE_string(
        "weights",
        None,
        'The weights to begin with: moses.ini, or a file of lines "Name= w [w ...]"; 0 for features that it lacks. '
        "Default: 0 for all.",
        **define,
    )
    flags.DEFINE_multi_string(
        "weight",
        [],
        "Name=w, the initial weight of a feature; overrides --weights. May be repeated.",
        **define,
    )
    flags.DEFINE_enum("algorithm", "mert", ["mert", "mira", "pro"], "How the weights are searched for.", **define)
    flags.DEFINE_enum("metric", "bleu", ["bleu", "chrf"], "Metric to maximize.", **define)
    flags.DEFINE_integer(
        "seeds", 1, "Searches, with the seeds 1, 2 and so on; the best weights are written.", lower_bound=1, **define
    )
    flags.DEFINE_bool(
        "word_penalty", False, "Add the feature WordPenalty0, minus the number of words, to lists without it.", **define
    )
    flags.DEFINE_enum(
        "tokenize", "none", ["none", "13a", "intl", "char", "zh"], "Sacrebleu's tokenizer for BLEU.", **define
    )
    flags.DEFINE_multi_string(
        "test_nbest", [], "N-best list that is held out, and scored with the weights of each seed. Optional.", **define
    )
    flags.DEFINE_multi_string("test_reference", [], "Reference translations of --test_nbest.", **define)
    flags.DEFINE_string("weights_out", None, "File for the best weights, for encdec-rerank --weights.", **define)
    flags.DEFINE_string("moses_ini_out", None, "File for the moses.ini of --weights with the best weights.", **define)
    flags.DEFINE_string(
        "all_weights_out", None, "Directory for the weights of each seed, in files weights.1 and so on.", **define
    )
    flags.DEFINE_string("json_out", None, "File for weights and scores of all seeds as JSON. Optional.", **define)
    flags.DEFINE_string("encoding", None, "Encoding of lists and references. Default: UTF-8.", **define)


def main(flag_values: flags.FlagValues) -> None:
    """Tunes as the flags say."""
    from keras_encdec.runtime.files import check_distinct_files, open_output
    from keras_encdec.runtime.settings_files import write_json
    from keras_encdec.smt.tuning.tune import tune

    outputs = ("weights_out", "moses_ini_out", "all_weights_out", "json_out")
    if all(flag_values[name].value is None for name in outputs):
        names = ", ".join(f"--{name}" for name in outputs)
        raise UsageError(f"found no file for the weights, expected one of {names}.")
    if flag_values.json_out:
        outputs_of_tune = (flag_values.weights_out, flag_values.moses_ini_out)
        inputs = (*flag_values.nbest, *flag_values.reference, *flag_values.test_nbest, *flag_values.test_reference)
        for path in (*inputs, flag_values.weights, *outputs_of_tune):
            check_distinct_files(path, flag_values.json_out)
        with open_output(flag_values.json_out, keep=False):  # that nothing is searched for in vain
            pass
    tuning = tune(
        flag_values.nbest,
        flag_values.reference,
        flag_values.weights,
        flag_values.algorithm,
        flag_values.metric,
        seeds=range(1, flag_values.seeds + 1),
        other_weights=weights_given(flag_values),
        test_references=flag_values.test_reference,
        report=lambda tuned: print(tuned, file=sys.stderr, flush=True),
        **{
            name: flag_values[name].value
            for name in ("word_penalty", "tokenize", "encoding", "test_nbest", *outputs[:3])
        },
    )
    if flag_values.json_out:
        write_json(flag_values.json_out, tuning.to_dict())
    print(tuning, file=sys.stderr if "-" in [flag_values[name].value for name in outputs] else sys.stdout)
    for remark in tuning.remarks:
        print(remark, file=sys.stderr)
    tell_missing(tuning.missing, "count as empty translations")
    if tuning.hypotheses == tuning.sentences:
        print("Every sentence has one hypothesis: no weights are better than others.", file=sys.stderr)


COMMAND = Command(
    "encdec-tune",
    define_flags,
    main,
    required=("nbest", "reference"),
    flag_names={"references": "reference", "test_references": "test_reference"},
)

if __name__ == "__main__":
    COMMAND.run()
