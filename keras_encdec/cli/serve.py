"""encdec-serve: a page to try a model on, in a browser."""

import sys

from absl import flags

from keras_encdec.cli.command import Command
from keras_encdec.cli.configuration_flags import configuration_from_flags, define_configuration_flags
from keras_encdec.web.request_limits import RequestLimits


def define_flags(flag_values: flags.FlagValues) -> None:
    """Defines the flags of `encdec-serve`."""
    define = {"flag_values": flag_values}
    flags.DEFINE_string("model_dir", None, "Directory of a model with a source.", **define)
    flags.DEFINE_string(
        "host",
        "127.0.0.1",
        "Name or address to listen at. 127.0.0.1: only this machine reaches the page; 0.0.0.0: others do, too.",
        **define,
    )
    flags.DEFINE_integer("port", 8080, "Port to listen at; 0: any free one.", 0, 65535, **define)
    flags.DEFINE_string(
        "phrase_table",
        None,
        "Moses phrase table, plain or gzipped, among whose sources neighbours of a phrase are found. Default: the "
        "model's training data.",
        **define,
    )
    flags.DEFINE_string(
        "input", None, "Text, a phrase or sentence a line, among which neighbours are found instead.", **define
    )
    flags.DEFINE_string("encoding", None, "Encoding of the files. Default: UTF-8.", **define)
    define_configuration_flags(flag_values, RequestLimits, "limits of requests")


def main(flag_values: flags.FlagValues) -> None:
    """Serves a page as the flags say."""
    from keras_encdec.runtime.extras import check_extra

    check_extra("web", "The page")
    import keras_encdec.backend.startup  # noqa: F401
    from keras_encdec.backend.devices import keep_freed_memory
    from keras_encdec.web.serve import serve

    keep_freed_memory()  # with many arenas, freed memory seldom fits the next request
    serve(
        flag_values.model_dir,
        flag_values.host,
        flag_values.port,
        phrase_table=flag_values.phrase_table,
        input=flag_values.input,
        encoding=flag_values.encoding,
        limits=configuration_from_flags(RequestLimits, flag_values),
        say=lambda line: print(line, file=sys.stderr, flush=True),
    )


COMMAND = Command("encdec-serve", define_flags, main, required=("model_dir",), serves=True)

if __name__ == "__main__":
    COMMAND.run()
