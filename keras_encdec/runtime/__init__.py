"""Shared by all tasks: files, settings, progress, worker processes, shards, stop signals, locks, lazy imports."""
