"""Calls TensorFlow Serving; needs neither TensorFlow nor Keras."""
