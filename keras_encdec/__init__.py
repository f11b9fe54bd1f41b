"""RNN Encoder-Decoder of Cho et al., 2014, for Keras 3: p(target phrase | source phrase)."""

__version__ = "0.1.0"
