"""The sections of the report: what was computed, as tables, figures and the words around them."""
