"""Code in an answer: found, read without running it, and run where it can do no harm."""
