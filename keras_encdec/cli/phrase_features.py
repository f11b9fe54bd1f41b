"""encdec-phrase-features: adds scores of a phrase table, summed over each hypothesis's phrases, to an n-best list."""

import re
from collections.abc import Sequence

from keras_encdec.cli.command import UsageError
from keras_encdec.cli.flags import OUTPUT, Repeated
from keras_encdec.cli.task_command import Arguments, check_paths, show_summary, task_command
from keras_encdec.smt.nbest.phrase_features import PhraseFeatureOptions


def main(arguments: Arguments, options: PhraseFeatureOptions) -> None:
    """Adds features as the flags say."""
    from keras_encdec.runtime.progress import ReadingProgress
    from keras_encdec.smt.nbest.phrase_features import add_phrase_features

    inputs = arguments["input"], arguments["source"], arguments["phrase_table"]
    check_paths(inputs=inputs, outputs=[arguments["output"]])
    features = _parsed_features(arguments.pop("features")) or None
    show_summary(add_phrase_features(**arguments, features=features, options=options, progress=ReadingProgress))


def _parsed_features(texts: Sequence[str]) -> dict[str, list[int]]:
    features = {}
    for text in texts:
        name, equals, numbers = text.rpartition("=")
        if not equals or not re.fullmatch(r"\d{1,9}(,\d{1,9})*", numbers, re.ASCII):
            raise UsageError(f"--feature: found {text!r}, expected Name=n or Name=n,m with the numbers of scores.")
        if name in features:
            raise UsageError(f"--feature: found {name} twice, expected Name=n,m for a feature with several values.")
        features[name] = [int(number) for number in numbers.split(",")]
    return features


COMMAND = task_command(
    "encdec-phrase-features",
    main,
    PhraseFeatureOptions,
    required={
        "input": "N-best list, plain or gzipped; - means standard input.",
        "source": "The sentences that were translated, plain or gzipped; id 0 is the first line.",
        "phrase_table": "Phrase table, plain or gzipped: the one that the list was made with, with more scores at the "
        "end, as encdec-score writes it.",
        **OUTPUT,
    },
    optional={
        "features": Repeated(
            "Name=n, a new feature and the number of its score in the table, from 1; Name=n,m for a feature with "
            "several values. May be given several times. Default: RNN0=5, the score that encdec-score adds to Moses's "
            "four."
        )
    },
    flag_names={"features": "feature"},
    example="encdec-phrase-features --input=nbest.gz --source=input.en --phrase_table=scored.gz "
    "--output=with-features.gz",
    guide="nbest",
)

if __name__ == "__main__":
    COMMAND.run()
