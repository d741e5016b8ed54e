"""Which lessons come back: what fits, what has proved its worth, where memory holds back."""
