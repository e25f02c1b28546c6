"""Plans in the words of the runtimes that carry them out."""
