"""What a text says, told without a model and without a store: words, their forms and kin, literals, likeness."""
