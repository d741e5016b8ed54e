"""Text, without a model or a store: tokens, normalizing, literals, secrets, likeness, and JSON as models write it."""
