"""Verification on the real model: the plan is run, and measurements are compared with predictions."""
