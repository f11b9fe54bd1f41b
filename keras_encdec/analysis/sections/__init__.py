"""Writes the sections of the report: tables, figures and text."""
