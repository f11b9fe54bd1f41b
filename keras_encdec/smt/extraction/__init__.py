"""Extraction of phrase tables and dictionaries from parallel text."""
