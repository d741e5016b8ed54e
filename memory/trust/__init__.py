"""Whether a text may be kept or shown: the write gate, the guard, whose words it is made of."""
