"""From parallel text to a phrase table and a dictionary."""
