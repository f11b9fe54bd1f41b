"""Fixtures that the tests of commands share."""

from tiny_trainings import training_files as training_files
