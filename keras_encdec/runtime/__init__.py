"""Shared by all tasks: files, progress, worker processes, stop signals, locks, lazy imports."""
