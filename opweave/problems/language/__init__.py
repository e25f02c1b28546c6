"""Language models as layers of tensor groups: what they hold, read and compute for one token or a prompt."""
