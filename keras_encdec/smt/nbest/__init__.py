"""N-best lists: features added to them, and hypotheses ranked by their weighted sum."""
