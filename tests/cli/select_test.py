"""The command that selects sentence pairs; what it does is tested with `keras_encdec.selection`."""

import pytest
from commands import fail, succeed
from in_process import in_process

from keras_encdec.cli.select import COMMAND


@pytest.mark.usefixtures("uncompiled")
def test_flags_are_passed_on(tmp_path, out, model_dirs):
    (tmp_path / "fr").write_text("le chat\nla maison\nle chat\n")
    (tmp_path / "en").write_text("the cat\nhouse\nthe cat\n")
    (tmp_path / "tsv").write_text("le chat\tthe cat\nla maison\thouse\n")
    models = f"--model_dir={model_dirs}/forward", f"--reverse_model_dir={model_dirs}/reverse"
    given = (
        f"--source={tmp_path}/fr",
        f"--target={tmp_path}/en",
        f"--output={out}/en",
        f"--source_output={out}/fr",
        f"--scores={out}/scores",
        "--deduplicate",
        "--share=1",
        "--max_tokens=10",
        "--on_error=keep",
    )
    done = succeed(in_process(COMMAND, *models, *given))
    assert (out / "fr").read_text() == "le chat\nla maison\n" and (out / "en").read_text() == "the cat\nhouse\n"
    assert len((out / "scores").read_text().splitlines()) == 3
    assert done.stderr.startswith("2 of 3 pairs in ") and "left out: 1 duplicate" in done.stderr
    given = f"--tsv={tmp_path}/tsv", f"--output={out}/tsv"
    succeed(in_process(COMMAND, *models, *given, "--threshold=0"))
    assert (out / "tsv").read_text() == (tmp_path / "tsv").read_text()
    fail(
        in_process(COMMAND, *models, *given, "--top=1", "--end_weight=0"),
        2,
        "--end_weight=0: expected a number, above 0, 1000 or less",
    )
    fail(in_process(COMMAND, *models, *given), 2, "found none of --top, --share and --threshold, expected one")
    fail(in_process(COMMAND, *models, "--output=x", "--top=1"), 2, "found no text, expected --source with --target, or")
    fail(in_process(COMMAND, *given, "--top=1"), 2, "found no models with --method=dual, expected --model_dir and")
