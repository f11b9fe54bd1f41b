"""Commands that are neither training nor export, and what all commands share."""
