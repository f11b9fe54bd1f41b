"""Writes the report as a single HTML page that needs no network."""
