"""Proof on the real model: the plan is run, and what it did is compared with what was predicted."""
