"""The lesson book, memory's one door: looking into it, keeping it up, and what runs ask of it."""
