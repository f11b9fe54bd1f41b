"""Stages that run Moses: they escape text, write a moses.ini, tune and decode.

Moses is used from the directory in which it was built, which has its programs in `bin` and `scripts/training`.
"""

import contextlib
import os
import pathlib
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence

from keras_encdec.errors import FilePath, InputError
from keras_encdec.formats import InputLines, model_words, open_output
from keras_encdec.formats.encodings import FileEncoding, escape
from keras_encdec.formats.feature_weights import LANGUAGE_MODEL, TRANSLATION_MODEL
from keras_encdec.formats.ini_lines import parse_ini_lines
from keras_encdec.formats.moses_ini import is_moses_path
from keras_encdec.formats.phrase_table import number_of_scores
from keras_encdec.runtime.open_output import write_file
from keras_encdec.runtime.unfinished import temporary_folder
from keras_encdec.runtime.workers import available_processors

DECODER, TUNER = "bin/moses", "scripts/training/mert-moses.pl"
# mert-moses.pl requires all these programs, whatever optimizer it uses.
PROGRAMS = (
    DECODER,
    "bin/mert",
    "bin/extractor",
    "bin/pro",
    "bin/kbmira",
    "bin/evaluator",
    "scripts/training/filter-model-given-input.pl",
)

# Features of a moses.ini that `write_moses_ini` makes, by the name of the file that each reads.
_FEATURES = {"phrase_table": TRANSLATION_MODEL, "language_model": LANGUAGE_MODEL}

# Distance-based reordering, and the initial weights of Moses's own train-model.perl.
_INI = """[input-factors]
0

[mapping]
0 T 0

[distortion-limit]
6

[feature]
UnknownWordPenalty
WordPenalty
PhrasePenalty
PhraseDictionaryMemory name=TranslationModel0 num-features={scores} path={phrase_table} input-factor=0 output-factor=0 \
table-limit=20
Distortion
KENLM name=LM0 factor=0 path={language_model} order={order}

[weight]
UnknownWordPenalty0= 1
WordPenalty0= -1
PhrasePenalty0= 0.2
TranslationModel0= {weights}
Distortion0= 0.3
LM0= 0.5
"""


def check_programs(moses_dir: str) -> None:
    """Checks that the programs of all stages exist, before the first stage begins.

    Raises:
        InputError: if a program is missing or cannot be executed, or Perl is not installed.
    """
    for program in (*PROGRAMS, TUNER):
        path = pathlib.Path(moses_dir) / program
        if not path.is_file() or (program in PROGRAMS and not os.access(path, os.X_OK)):
            found = "found a file that cannot be executed" if path.is_file() else "found no such file"
            remedy = "build Moses, or check moses_dir in [baseline]"
            raise InputError(found, "expected a program of Moses", remedy, path)
    if shutil.which("perl") is None:
        raise InputError("found no perl on the PATH", f"expected Perl, to run {TUNER}", "install Perl")


def escape_text(text: pathlib.Path, output: pathlib.Path) -> None:
    """Writes tokenized text with Moses's escapes. Escapes in the input are kept.

    Raises:
        InputError: if the text cannot be read, or is not UTF-8.
    """
    with InputLines(text) as lines, open_output(output) as file:
        for line in FileEncoding().texts(lines):
            file.write(" ".join(map(escape, model_words(line))).encode() + b"\n")


def check_ini(path: FilePath) -> None:
    """Checks that a file is the moses.ini of a whole system, before the first stage begins.

    Raises:
        InputError: if it cannot be read, or declares no features, as a file of weights.
    """
    with InputLines(path) as lines:
        parsed = parse_ini_lines(line.decode("utf-8", "surrogateescape") for line in lines)
    if not any(line.name for line in parsed):
        found, expected = "found no features in a section [feature]", "expected the moses.ini of a whole system"
        remedy = "name one as weights in [baseline], or drop weights"
        raise InputError(found, expected, remedy, path)


def check_paths(models: Mapping[str, pathlib.Path]) -> None:
    """Checks that a moses.ini can name the files of a system, before the first stage begins.

    Args:
        models: dict from "phrase_table" and "language_model" to the path of the file, which need not exist yet.

    Raises:
        InputError: for a path with spaces or #.
    """
    for name, path in models.items():
        if not is_moses_path(os.fspath(path.absolute())):
            found, expected = f"found this path of the {name.replace('_', ' ')}", "expected a path without spaces and #"
            remedy = "rename the folder, or give another --output: moses.ini cannot hold such a path"
            raise InputError(found, expected, remedy, path.absolute())


def write_moses_ini(phrase_table: pathlib.Path, language_model: pathlib.Path, output: pathlib.Path, order: int) -> None:
    """Writes the moses.ini of a phrase-based system with distance-based reordering.

    Args:
        phrase_table: a phrase table with any number of scores.
        language_model: an ARPA file, for KenLM.
        output: the moses.ini to write.
        order: int. Order of the language model.
    """
    paths = {"phrase_table": phrase_table.absolute(), "language_model": language_model.absolute()}
    scores = number_of_scores(phrase_table)
    write_file(output, _INI.format(order=order, scores=scores, weights=" ".join(["0.2"] * scores), **paths).encode())


@contextlib.contextmanager
def _with_current_paths(ini: pathlib.Path, models: Mapping[str, pathlib.Path]) -> Iterator[pathlib.Path]:
    """Yields a moses.ini with the paths that its files have in this run: copies of remote files get new paths.

    Only the models that are named in `_FEATURES` have paths in it.
    """
    files = {_FEATURES[name]: path.absolute() for name, path in models.items() if name in _FEATURES}
    if not files:
        yield ini.absolute()
        return
    with InputLines(ini) as read:
        lines = parse_ini_lines(line.decode("utf-8", "surrogateescape") for line in read)
    for line in lines:
        if line.name in files:
            line.set_argument("path", os.fspath(files[line.name]))
    with temporary_folder() as folder:
        placed = pathlib.Path(folder, "moses.ini")
        placed.write_bytes("".join(f"{line.text}\n" for line in lines).encode("utf-8", "surrogateescape"))
        yield placed


def files_of_ini(ini: pathlib.Path) -> list[pathlib.Path]:
    """Returns the existing files that a moses.ini names for its features: tables and language models."""
    with InputLines(ini) as lines:
        parsed = parse_ini_lines(line.decode("utf-8", "surrogateescape") for line in lines)
    words = [word for line in parsed for word in line.words]
    paths = [pathlib.Path(word.removeprefix("path=")) for word in words if word.startswith("path=")]
    return [path for path in dict.fromkeys(paths) if path.is_file()]


def tune_moses(
    source: pathlib.Path,
    target: pathlib.Path,
    ini: pathlib.Path,
    output: pathlib.Path,
    moses_dir: str,
    nbest_size: int,
    **models: pathlib.Path,
) -> None:
    """Tunes with mert-moses.pl. Its working directory is `output`, where it writes the tuned moses.ini.

    Args:
        source: sentences, with Moses's escapes.
        target: their reference translations, with Moses's escapes.
        ini: the moses.ini with the initial weights.
        output: directory.
        moses_dir: str. Directory of Moses.
        nbest_size: int. Hypotheses per sentence.
        **models: files that the moses.ini names. `phrase_table` and `language_model` replace the paths in it.

    Raises:
        InputError: if Moses cannot be run, fails, or writes no moses.ini.
    """
    moses, log = pathlib.Path(moses_dir).absolute(), output.parent / "tuning.log"
    with _with_current_paths(ini, models) as placed:
        command = ["perl", moses / TUNER, source.absolute(), target.absolute(), moses / DECODER, placed]
        command += ["--mertdir", moses / "bin", "--working-dir", output.absolute(), "--nbest", nbest_size]
        command += ["--predictable-seeds", "--decoder-flags", f"-threads {available_processors()}"]
        _run(command, log)
    if not (output / "moses.ini").exists():
        raise InputError("found no moses.ini after tuning", "expected one from mert-moses.pl", f"read {log}", output)


def decode_with_moses(
    source: pathlib.Path,
    tuned: pathlib.Path,
    nbest: pathlib.Path,
    moses_dir: str,
    nbest_size: int,
    **models: pathlib.Path,
) -> None:
    """Writes an n-best list of distinct hypotheses with their segmentation.

    Args:
        source: sentences, with Moses's escapes.
        tuned: output of `tune_moses`.
        nbest: file to write, not gzipped.
        moses_dir: str. Directory of Moses.
        nbest_size: int. Hypotheses per sentence.
        **models: see `tune_moses`.

    Raises:
        InputError: if Moses cannot be run or fails.
    """
    moses, unfinished = pathlib.Path(moses_dir).absolute(), nbest.with_name(nbest.name + ".unfinished")
    with _with_current_paths(tuned / "moses.ini", models) as placed:
        command = [moses / DECODER, "-f", placed, "-input-file", source.absolute()]
        command += ["-threads", available_processors(), "-n-best-list", unfinished.absolute(), nbest_size, "distinct"]
        command += ["-include-segmentation-in-n-best", "true"]
        _run(command, nbest.with_suffix(".log"))
    os.replace(unfinished, nbest)


def _run(command: Sequence[object], log: pathlib.Path) -> None:
    """Runs a program, which writes its messages to `log`."""
    words = list(map(str, command))
    try:
        with open(log, "wb") as file:
            subprocess.run(words, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, check=True)
    except OSError as error:
        found = f"could not be run ({error.strerror})"
        raise InputError(found, "expected a program of Moses", "check moses_dir in [baseline]", words[0]) from None
    except subprocess.CalledProcessError as error:
        raise InputError(
            f"found the exit status {error.returncode} of {pathlib.Path(words[1 if words[0] == 'perl' else 0]).name}",
            "expected 0",
            "read the messages in this file",
            log,
        ) from None
