"""encdec-tune: finds weights for the features of n-best lists with MERT, batch MIRA or PRO."""

import itertools
import sys

from keras_encdec.cli.command import UsageError
from keras_encdec.cli.flags import WEIGHTS, Repeated, parsed_weights, warn_of_missing
from keras_encdec.cli.process import say
from keras_encdec.cli.task_command import Arguments, check_paths, show_notices, task_command
from keras_encdec.runtime.progress_state import current_record
from keras_encdec.smt.tuning.tune import TuningOptions
from keras_encdec.smt.tuning.tuning_result import TunedWeights


def main(arguments: Arguments, options: TuningOptions) -> None:
    """Tunes as the flags say."""
    from keras_encdec.runtime.settings_files import write_json
    from keras_encdec.smt.tuning.tune import tune

    json_out = arguments.pop("json_out")
    outputs = {
        "weights_out": options.weights_out,
        "moses_ini_out": options.moses_ini_out,
        "all_weights_out": options.all_weights_out,
        "json_out": json_out,
    }
    if not any(outputs.values()):
        names = ", ".join(f"--{name}" for name in outputs)
        raise UsageError(f"found no file for the weights, expected one of {names}.")
    other_weights = parsed_weights(arguments.pop("other_weights"))
    lists = [arguments[name] for name in ("nbest", "references", "test_nbest", "test_references")]
    check_paths(
        inputs=[arguments["weights"], *itertools.chain(*lists)],
        outputs=[options.weights_out, options.moses_ini_out, json_out],
        folders=[options.all_weights_out],
    )
    record, ended = current_record(), itertools.count(1)
    if record is not None:
        record.begin("searches")

    def report(tuned: TunedWeights) -> None:
        say(tuned)
        if record is not None:
            record.update(next(ended), options.seeds)

    tuning = tune(**arguments, options=options, other_weights=other_weights, report=report)
    if json_out:
        write_json(json_out, tuning.to_dict())
    print(tuning, file=sys.stderr if "-" in outputs.values() else sys.stdout)
    show_notices(tuning)
    warn_of_missing(tuning.missing, "counted as empty translations")


COMMAND = task_command(
    "encdec-tune",
    main,
    TuningOptions,
    required={
        "nbest": Repeated(
            "N-best list to tune on, plain or gzipped; may be given several times, for lists of several runs of a "
            "decoder."
        ),
        "references": Repeated(
            "Reference translations, one per line; may be given once for each of several references."
        ),
    },
    optional={
        "weights": f"The weights to begin with: {WEIGHTS['weights'].rstrip('.')}; 0 for features that it lacks. "
        "Default: 0 for all.",
        "other_weights": Repeated(
            "Name=w, the initial weight of a feature; overrides --weights. May be given several times."
        ),
        "test_nbest": Repeated("Held-out n-best list, which is scored with the weights of each seed. Optional."),
        "test_references": Repeated("Reference translations of --test_nbest."),
        "json_out": "File for weights and scores of all seeds as JSON. Optional.",
    },
    flag_names={"references": "reference", "test_references": "test_reference", "other_weights": "weight"},
    progress=True,
    example="encdec-tune --nbest=val.nbest.gz --reference=val.fr --weights_out=tuned.weights",
    guide="tuning",
)

if __name__ == "__main__":
    COMMAND.run()
