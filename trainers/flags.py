"""Flags of the training command, and the presets that are files of them."""

from absl import app, flags

from keras_encdec.models import preset_names
from keras_encdec.models.presets import preset_flags, preset_path

flags.DEFINE_string("phrase_table", None, "Moses phrase table to train on, plain or gzipped.")
flags.DEFINE_string("tsv", None, "Pairs to train on: source, tab, target; further columns are ignored.")
flags.DEFINE_string("source", None, "Source sentences to train on, one a line; with --target.")
flags.DEFINE_string("target", None, "Target sentences, line by line those of --source.")
flags.DEFINE_bool("language_model", False, "Learn p(target) without a source, of lstm, gru and rnn; sentences may be given as --target alone.")
flags.DEFINE_string("encoding", None, "Encoding of the input. Default: UTF-8, and other bytes are an error.")
flags.DEFINE_enum("on_error", "stop", ["stop", "keep"], "A malformed line stops the command, or is left out and counted.")
flags.DEFINE_bool("tokenize", False, "The text of --tsv or --source and --target is raw: normalize and tokenize it.")
flags.DEFINE_bool("lowercase", False, "Fold case when tokenizing.")
flags.DEFINE_bool("reverse", False, "Learn p(source | target): swap the sides.")
flags.DEFINE_integer("max_length", 30, "Pairs with a longer side, in words, are dropped and counted.", lower_bound=1, upper_bound=60_000)
flags.DEFINE_integer("shortlist", 15_000, "Words in each vocabulary, the most frequent.", lower_bound=1)
flags.DEFINE_string("source_vocabulary", None, "Vocabulary of the model's source, one word a line, instead of a new one.")
flags.DEFINE_string("target_vocabulary", None, "Vocabulary of the model's target, likewise.")
flags.DEFINE_list("validation", None, "Pairs to validate on, in the form of the training data: one file, or two for parallel text.")
flags.DEFINE_float("held_out_fraction", 0.01, "Random share of the unique pairs to validate on, without --validation.", lower_bound=0, upper_bound=0.5)
flags.DEFINE_integer("held_out_pairs", 2000, "At most so many pairs are held out.", lower_bound=1)

flags.DEFINE_string("model_dir", None, "Directory of the model.")
flags.DEFINE_bool("resume", False, "Go on with the training in --model_dir from its last checkpoint.")
flags.DEFINE_enum("preset", None, preset_names(), "Published or recommended settings; flags given beside it override it.")
flags.DEFINE_enum("architecture", "encdec", ["encdec", "lstm", "gru", "rnn"], "encdec is the paper's RNN Encoder-Decoder; the others are stacked layers of such cells, for sentences.")
flags.DEFINE_integer("embedding_dim", 100, "Dimension of the word embeddings.", lower_bound=1)
flags.DEFINE_integer("units", 1000, "Hidden units of encoder and decoder.", lower_bound=1)
flags.DEFINE_integer("maxout_units", 500, "Maxout units of the readout.", lower_bound=1)
flags.DEFINE_integer("output_rank", 100, "Rank of the output matrix.", lower_bound=1)
flags.DEFINE_bool("reset_after", False, "The encoder's reset gate after the matrix, as in the paper's supplement.")

flags.DEFINE_float("initial_stddev", 0.01, "Standard deviation of the initial weights that are not recurrent; 0.01 is the paper's, 0.1 learns sooner.", lower_bound=0)

flags.DEFINE_integer("layers", 2, "Of lstm, gru and rnn: layers of the encoder, and of the decoder.", lower_bound=1)
flags.DEFINE_enum("bidirectional", "none", ["none", "concat", "sum"], "Of lstm, gru and rnn: whether the encoder's layers read in both directions, and what is made of the two.")
flags.DEFINE_enum("condition", "states", ["states", "context"], "Of lstm, gru and rnn: the decoder starts from the encoder's last states, or reads a summary at every step.")
flags.DEFINE_bool("reverse_source", False, "Of lstm, gru and rnn: the encoder reads the words in reverse order.")
flags.DEFINE_float("dropout", 0.0, "Of lstm, gru and rnn: share of the connections between layers that are left out in training.", lower_bound=0, upper_bound=0.99)
flags.DEFINE_float("initial_scale", 0.1, "Of lstm, gru and rnn: initial weights are uniform between minus and plus this.", lower_bound=0)

flags.DEFINE_integer("updates", None, "Stop after so many updates.", lower_bound=1)
flags.DEFINE_float("epochs", None, "Stop after so many passes over the pairs.", lower_bound=0)
flags.DEFINE_float("minutes", None, "Stop after so many minutes of training.", lower_bound=0)
flags.DEFINE_integer("patience", None, "Stop when validation perplexity has not improved for so many rounds.", lower_bound=1)
flags.DEFINE_integer("round_updates", 500, "Updates in a round: then the model is validated and kept.", lower_bound=1)
flags.DEFINE_enum("optimizer", "adadelta", ["adadelta", "adam", "adamw", "rmsprop", "sgd"], "Optimizer; adadelta is the paper's.")
flags.DEFINE_float("learning_rate", 1.0, "Step size.", lower_bound=0)
flags.DEFINE_enum("schedule", "constant", ["constant", "linear", "cosine", "halving"], "Step size over the training: down to 0 at its end, or halved again and again.")
flags.DEFINE_float("halving_start", 5.0, "Of --schedule=halving: epochs before the first halving.", lower_bound=0)
flags.DEFINE_float("halving_every", 1.0, "Of --schedule=halving: epochs from one halving to the next.", lower_bound=0)
flags.DEFINE_enum("reduction", "sum", ["sum", "mean"], "Of the pairs' losses in a batch, and so the scale of the gradient that is clipped.")
flags.DEFINE_float("clip_norm", 1.0, "Clip the global norm of the gradient; 0 does not.", lower_bound=0)
flags.DEFINE_float("clip_elements", 0.0, "Clip each element of the gradient to this bound, before its norm; 0 does not.", lower_bound=0)
flags.DEFINE_integer("average_rounds", 0, "In the end average the weights after so many last rounds, and keep the average if it is the best.", lower_bound=0)
flags.DEFINE_integer("batch_size", 64, "Pairs an update.", lower_bound=1)
flags.DEFINE_enum("dtype_policy", "float32", ["float32", "mixed_bfloat16", "mixed_float16", "bfloat16"], "Keras dtype policy.")
flags.DEFINE_enum("jit_compile", "auto", ["auto", "true", "false"], "Compile with XLA. Default: what is faster on the backend.")
flags.DEFINE_list("pad_to", ["4", "6", "8", "12", "16", "24", "32"], "Widths that batches are padded to where each shape is compiled: few compile sooner, many pad less.")
flags.DEFINE_integer("seed", 1, "Of the weights, the held-out pairs and the order of the batches.", lower_bound=0, upper_bound=2**31 - 1)
flags.DEFINE_bool("tensorboard", True, "Write TensorBoard logs to logs/ in the model directory, if TensorFlow and tensorboard are installed.")

FLAGS = flags.FLAGS
# What a training that goes on must have the same, besides the sizes.
FIXED = (
    "architecture", "batch_size", "clip_elements", "clip_norm", "dtype_policy", "held_out_fraction", "held_out_pairs", "max_length",
    "language_model", "optimizer", "reduction", "seed", "shortlist",
)  # fmt: skip
SHARED_SIZES = ("embedding_dim", "units")
ENCDEC_SIZES = ("maxout_units", "output_rank", "reset_after", "initial_stddev")
ENCODER_SIZES = ("bidirectional", "condition", "reverse_source")
RECURRENT_SIZES = ("layers", *ENCODER_SIZES, "dropout", "initial_scale")


def sizes():
    """The arguments of the model that the flags ask for: dict."""
    names = ENCDEC_SIZES if FLAGS.architecture == "encdec" else RECURRENT_SIZES
    found = {name: FLAGS[name].value for name in (*SHARED_SIZES, *names)}
    if FLAGS.architecture != "encdec":
        found["bidirectional"] = None if FLAGS.bidirectional == "none" else FLAGS.bidirectional
        found["cell"] = FLAGS.architecture  # which no flag is called
    if FLAGS.language_model:
        for name in ENCODER_SIZES:
            del found[name]
    return found


def with_preset(arguments):
    """Puts the flag file of `--preset` before the other flags, so that these override it.

    Args:
        arguments: list of str, the program's name first. Flag files among them are read.

    Returns:
        list of str.
    """
    name = None
    arguments = [arguments[0], *FLAGS.read_flags_from_files(arguments[1:], force_gnu=False)]
    for argument, following in zip(arguments, [*arguments[1:], ""], strict=True):
        flag, given, value = argument.partition("=")
        if flag in ("--preset", "-preset"):
            name = value if given else following
    if name not in preset_names():
        return arguments  # the flag's own check tells which there are
    return [arguments[0], f"--flagfile={preset_path(name)}", *arguments[1:]]


def check_flags():
    """Raises `app.UsageError` for flags that contradict one another."""
    sentences = "target" if FLAGS.language_model else "source"
    inputs = [name for name in ("phrase_table", "tsv", sentences) if FLAGS[name].value]
    if len(inputs) != 1:
        found = " and ".join(f"--{name}" for name in inputs) or "none"
        alone = "--target" if FLAGS.language_model else "--source with --target"
        raise app.UsageError(f"found {found}, expected one of --phrase_table, --tsv, or {alone}.")
    if FLAGS.language_model:
        _check_language_model()
    elif bool(FLAGS.source) != bool(FLAGS.target):
        raise app.UsageError("found one of --source and --target, expected both.")
    if FLAGS.tokenize and FLAGS.phrase_table:
        raise app.UsageError("found --tokenize with --phrase_table, which holds tokens already; drop --tokenize.")
    if FLAGS.lowercase and not FLAGS.tokenize:
        raise app.UsageError("found --lowercase without --tokenize: text in tokens is taken as it is.")
    encdec = FLAGS.architecture == "encdec"
    expected = "--architecture=lstm, gru or rnn" if encdec else "--architecture=encdec"
    for name in _given(RECURRENT_SIZES if encdec else ENCDEC_SIZES):
        raise app.UsageError(f"found --{name} with --architecture={FLAGS.architecture}, expected it with {expected}.")
    if not all(width.isdecimal() for width in FLAGS.pad_to):
        raise app.UsageError(f"found --pad_to={','.join(FLAGS.pad_to)}, expected whole numbers of tokens.")
    for name in ("epochs", "minutes", "halving_every"):
        if FLAGS[name].value == 0:
            raise app.UsageError(f"found --{name}=0, expected more than 0.")
    if FLAGS.updates is None and FLAGS.epochs is None and FLAGS.minutes is None and FLAGS.patience is None:
        raise app.UsageError("found no end to the training, expected --updates, --epochs, --minutes or --patience.")
    for name in _given(("halving_start", "halving_every")) if FLAGS.schedule != "halving" else ():
        raise app.UsageError(f"found --{name} with --schedule={FLAGS.schedule}, expected it with --schedule=halving.")
    if FLAGS.schedule in ("linear", "cosine") and FLAGS.updates is None and FLAGS.epochs is None and FLAGS.minutes is None:
        raise app.UsageError(f"found --schedule={FLAGS.schedule}, expected --updates, --epochs or --minutes with it.")
    files = 2 if FLAGS.source else 1  # of parallel text; a language model has the target alone
    if FLAGS.validation and len(FLAGS.validation) != files:
        raise app.UsageError(f"found {len(FLAGS.validation)} files in --validation, expected {files} as for training.")
    for name in ("patience", "average_rounds"):
        if FLAGS[name].value and not FLAGS.validation and not FLAGS.held_out_fraction:
            raise app.UsageError(
                f"found --{name} without pairs to validate on; give --validation or --held_out_fraction."
            )


def _check_language_model():
    if FLAGS.architecture == "encdec":
        raise app.UsageError("found --language_model with --architecture=encdec, expected lstm, gru or rnn.")
    for name in _given(("source", "source_vocabulary", "reverse", *ENCODER_SIZES)):
        raise app.UsageError(f"found --{name} with --language_model, which has no source; drop one of the two.")


def _given(names):
    """Those of some flags that the user has set, to another value than the default and than the preset's.

    A preset may stand beside another architecture or schedule, for the rest of what it says.
    """
    preset = preset_flags(FLAGS.preset) if FLAGS.preset else {}
    return [
        name
        for name in names
        if FLAGS[name].value != FLAGS[name].default
        and (name not in preset or FLAGS[name].value != FLAGS[name].parser.parse(preset[name]))
    ]
